"""Tables of the candidates that a first stage retrieved for dev and test queries, and of the qrels of these queries.

No relevant document is added. What the first stage missed is in the qrels, so that metrics count it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from trainables.data.files.candidates_run import KEY, Ranking
from trainables.data.negatives.pool import is_own_document
from trainables.data.tasks import IRDataset
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

UNJUDGED = -1
"""Grade of a candidate without a qrel."""
_NO_RANKING = Ranking([], np.empty(0))


class RetrievedSplit(NamedTuple):
    """Retrieved candidates of a split."""

    candidates: pd.DataFrame
    """Table as `RankingDataset.read_candidates` describes it."""
    qrels: pd.DataFrame
    """Columns split, query_id, document_id, relevant and grade: all qrels of the queries."""
    counts: dict[str, float]
    """Counts for the metadata, see `RankingDataset`."""


def build_retrieved_split(
    split: str,
    query_ids: Sequence[str],
    rankings: Mapping[str, Ranking],
    dataset: IRDataset,
    settings: RankerTaskSettings,
) -> RetrievedSplit:
    """Build the tables of a split.

    The rankings are best first. Those of a run are not cut yet, and the query itself may be among them.

    Raises:
        UserError: If no query of the split has documents, if none of them is relevant, or if one of them is not in the
            collection.
    """
    own = {name: rankings.get(name, _NO_RANKING) for name in query_ids}
    if settings.candidates_run:
        own = _leave_out_queries(split, own, dataset, settings)
    _check_rankings(split, own, dataset, settings)
    qrels = _build_qrels(split, query_ids, dataset, settings)
    lengths = np.array([len(ranking.documents) for ranking in own.values()])
    frame = pd.DataFrame(
        {
            "split": split,
            "query_id": np.repeat(np.array(query_ids, dtype=object), lengths),
            "document_id": [name for ranking in own.values() for name in ranking.documents],
        }
    )
    frame = join_qrels(frame, qrels.drop(columns="split"))
    frame["score"] = np.concatenate([np.nan_to_num(ranking.scores, nan=0.0) for ranking in own.values()])
    frame["weak_label"] = np.nan
    is_bm25 = settings.evaluation_sampler.name == "bm25" and not settings.candidates_run
    frame["bm25"] = frame["score"] if is_bm25 else np.nan
    if not frame["relevant"].any():  # every system would have the same score, 0
        found = f"no relevant document among the {len(frame):,} candidates of the {split} queries"
        raise UserError(_get_key(settings), found, "a first stage that finds some")
    return RetrievedSplit(frame, qrels, _count(frame, qrels, len(dataset.documents)))


def join_qrels(documents: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Return documents of queries with the columns relevant and grade: 0 and `UNJUDGED` without a qrel."""
    judged = documents.merge(qrels, how="left", on=["query_id", "document_id"])
    judged["relevant"] = judged["relevant"].fillna(0).astype(np.int8)
    judged["grade"] = judged["grade"].fillna(UNJUDGED).astype(np.int8)
    return judged


def _leave_out_queries(
    split: str, rankings: Mapping[str, Ranking], dataset: IRDataset, settings: RankerTaskSettings
) -> dict[str, Ranking]:
    """Return the first documents of each query that are not the query itself, as `DocumentPool.prepare_searches`."""
    judged = {(qrel.query_id, qrel.document_id) for qrel in dataset.qrels if qrel.split == split}
    cut = dict[str, Ranking]()
    for query, (documents, scores) in rankings.items():
        kept = [
            place
            for place, name in enumerate(documents)
            if settings.sampler.protocol.keep_query_text
            or (query, name) in judged
            or not is_own_document(query, dataset.queries[query], name, dataset.documents.get(name, ""))
        ][: settings.retrieval_depth]
        cut[query] = Ranking([documents[place] for place in kept], scores[kept])
    return cut


def _get_key(settings: RankerTaskSettings) -> str:
    return KEY if settings.candidates_run else "task.evaluation_sampler.name"


def _check_rankings(split: str, own: Mapping[str, Ranking], dataset: IRDataset, settings: RankerTaskSettings) -> None:
    if not any(ranking.documents for ranking in own.values()):
        found = f"no document for any of {len(own)} {split} queries, such as {next(iter(own))}"
        files = "a run, or several, of the dev and test queries"
        raise UserError(_get_key(settings), found, files if settings.candidates_run else "another first stage")
    for query, ranking in own.items():
        unknown = [name for name in ranking.documents if name not in dataset.documents]
        if unknown:
            found = f"document {unknown[0]} for query {query}, which the collection lacks"
            raise UserError(KEY, found, "a run over the documents of the task")


def _build_qrels(
    split: str, query_ids: Sequence[str], dataset: IRDataset, settings: RankerTaskSettings
) -> pd.DataFrame:
    order = {name: place for place, name in enumerate(query_ids)}
    rows = [
        (split, qrel.query_id, qrel.document_id, max(qrel.grade, 0))  # a negative grade is a judgement, too
        for qrel in dataset.qrels
        if qrel.split == split and qrel.query_id in order
    ]
    rows.sort(key=lambda row: order[row[1]])
    frame = pd.DataFrame(rows, columns=["split", "query_id", "document_id", "grade"])
    relevant = (frame["grade"] >= settings.get_relevant_from(split)).astype(np.int8)
    frame.insert(3, "relevant", relevant)
    return frame.astype({"grade": np.int8})


def _count(frame: pd.DataFrame, qrels: pd.DataFrame, n_documents: int) -> dict[str, float]:
    relevant = qrels.groupby("query_id", sort=False)["relevant"].sum()
    found = frame.groupby("query_id", sort=False)["relevant"].sum().reindex(relevant.index, fill_value=0)
    n_irrelevant = int((relevant == 0).sum())
    return {
        "queries": len(relevant),
        "pool": n_documents,
        "back_filled": 0,
        "relevant": int(found.sum()),
        "relevant_left_out": 0,
        "candidates": len(frame),
        "relevant_missed": int((relevant - found).sum()),
        "queries_missed": int((found == 0).sum()),
        "queries_absent": len(relevant) - frame["query_id"].nunique(),
        "recall": round(float((found / relevant.clip(lower=1)).mean()), 6),
        "judged": round(float((frame["grade"] != UNJUDGED).mean()), 6),
        **({"queries_without_relevant": n_irrelevant} if n_irrelevant else {}),
    }
