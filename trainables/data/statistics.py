"""Statistics of prepared data for people: counts and mean lengths of each split, as Penha and Hauff (2020, Table 3).

They are computed from the prepared tables and stored in the same folder. No fingerprint, id or plan depends on them, so
data prepared by an earlier version has them too.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.sentence_dataset import EVALUATION_SPLITS, SentenceDataset
from trainables.data.store import Dataset, load_or_compute
from trainables.data.tasks import SPLITS, get_task
from trainables.metrics.sts_correlation import get_set_name

_Row = dict[str, Any]
"""Row of a table, see `TrainablePlugin.load_statistics`."""

_FORMAT = 1
"""Part of the stored statistics. Increase it when the same tables give different statistics."""
_WORDS = "Words are separated by white space."
_RANKING_LEGEND = (
    f"{_WORDS} A query-document pair is a candidate of a query. Means per query are over the queries of a split, means "
    "per document over its pairs: a document counts as often as it is a candidate."
)
_TURNS_LEGEND = " A turn is an utterance; its separator is no word."
_SENTENCE_LEGEND = f"{_WORDS} The sentences of a set are distinct, its pairs need not be."


def load_ranking_statistics(prepared: RankingDataset) -> dict[str, Any]:
    """Return the statistics of a ranking task, by split. Computes and stores them if missing.

    The rows are queries, query-document pairs, candidates per query, words per query and words per document. Dialogues
    also have turns per query and words per turn, and a task with domains has the number of domains. Retrieved
    candidates have the recall of the first stage, the queries for which it found nothing relevant, and the share of
    candidates that are judged.
    """
    statistics = _load_statistics(prepared, _compute_ranking_statistics)
    domains = prepared.read_query_domains()  # in a file of their own, since no fingerprint depends on them
    if domains is not None:
        queries = prepared.read_candidates(columns=["split", "query_id"]).drop_duplicates()
        named = queries.assign(domain=queries["query_id"].map(domains)).groupby("split")["domain"].nunique()
        statistics["rows"].append(_make_count("domains", [int(named[split]) for split in SPLITS]))
    return statistics


def load_sentence_statistics(prepared: SentenceDataset) -> dict[str, Any]:
    """Return the statistics of the training sentences and of each evaluation set. Computes and stores them if missing.

    The rows are sentences, words per sentence and pairs.
    """
    return _load_statistics(prepared, _compute_sentence_statistics)


def _load_statistics(prepared: Dataset, compute: Callable[[Dataset], dict[str, Any]]) -> dict[str, Any]:
    path = prepared.folder / "statistics.json"
    statistics: dict[str, Any] = load_or_compute(path, _FORMAT, lambda: compute(prepared))
    return statistics


def _compute_ranking_statistics(prepared: RankingDataset) -> dict[str, Any]:
    import pandas as pd  # imported here, since it takes noticeable time

    task, settings = get_task(prepared.settings.name), prepared.settings
    queries, documents = prepared.read_queries().set_index("query_id"), prepared.read_documents()
    candidates = prepared.read_candidates(columns=["split", "query_id", "document_id"])
    contexts = [task.split_utterances(text) for text in queries["text"]]
    query_words = pd.Series([sum(map(_count_words, context)) for context in contexts], queries.index)
    turns = pd.Series([len(context) for context in contexts], queries.index)
    document_words = pd.Series([*map(_count_words, documents["text"])], documents["document_id"])
    rows = [candidates[candidates["split"] == split] for split in SPLITS]
    names = [prepared.read_query_ids(split) for split in SPLITS]
    words = [query_words[own].to_numpy() for own in names]
    sizes = [len(table) / len(own) for table, own in zip(rows, names, strict=True)]
    statistics = [
        _make_count("queries", [len(own) for own in names]),
        _make_count("query-document pairs", [len(table) for table in rows]),
        *(_describe_first_stage(prepared, sizes[0]) if settings.retrieval_depth else [_make_size(sizes)]),
    ]
    if task.is_dialogue:
        counts = [turns[own].to_numpy() for own in names]
        statistics += [
            _make_mean("turns per query", [own.mean() for own in counts]),
            _make_mean("words per turn", [own.sum() / n.sum() for own, n in zip(words, counts, strict=True)]),
        ]
    statistics += [
        _make_mean("words per query", [own.mean() for own in words]),
        _make_mean("words per document", [document_words[table["document_id"]].mean() for table in rows]),
    ]
    legend = _RANKING_LEGEND + (_TURNS_LEGEND if task.is_dialogue else "")
    return {"columns": list(SPLITS), "rows": statistics, "legend": legend}


def _describe_first_stage(prepared: RankingDataset, n_train: float) -> list[_Row]:
    """Return the mean numbers of candidates, and what the first stage found of what is relevant and judged."""
    splits, depth = prepared.read_metadata()["splits"], prepared.settings.retrieval_depth
    evaluated = [splits[split] for split in SPLITS[1:]]

    def list_values(key: str) -> list[float | None]:
        return [None, *(counts.get(key) for counts in evaluated)]

    return [
        _make_mean("candidates per query", [n_train, *(own["candidates"] / own["queries"] for own in evaluated)]),
        {"name": f"R@{depth} of the first stage", "decimals": 4, "values": list_values("recall")},
        _make_count("queries without a relevant candidate", list_values("queries_missed")),
        _make_count("queries without a candidate", list_values("queries_absent")),
        {"name": "judged candidates, share", "decimals": 4, "values": list_values("judged")},
    ]


def _compute_sentence_statistics(prepared: SentenceDataset) -> dict[str, Any]:
    table = prepared.read_pairs()
    texts: dict[str, list[str]] = {"train": prepared.read_sentences()}
    pairs: list[float | None] = [None]
    for split in EVALUATION_SPLITS:
        own = table[table["split"] == split]
        for name, of_set in own.groupby(own["query_id"].map(get_set_name), sort=False):
            texts[f"{split} {name}"] = list(dict.fromkeys((*of_set["first"], *of_set["second"])))
            pairs.append(len(of_set))
    rows = [
        _make_count("sentences", [len(own) for own in texts.values()]),
        _make_mean("words per sentence", [np.mean([*map(_count_words, own)]) for own in texts.values()]),
        _make_count("pairs", pairs),
    ]
    return {"columns": list(texts), "rows": rows, "legend": _SENTENCE_LEGEND}


def _count_words(text: str) -> int:
    return len(text.split())


def _make_count(name: str, values: Iterable[float | None]) -> _Row:
    return {"name": name, "decimals": 0, "values": list(values)}


def _make_size(sizes: list[float]) -> _Row:
    """Return the number of candidates per query, or the mean with two decimals where queries have different numbers."""
    decimals = 0 if all(size.is_integer() for size in sizes) else 2
    return {"name": "candidates per query", "decimals": decimals, "values": [round(size, 4) for size in sizes]}


def _make_mean(name: str, values: Iterable[float | np.floating]) -> _Row:
    return {"name": name, "decimals": 1, "values": [round(float(value), 4) for value in values]}
