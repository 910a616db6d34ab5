"""Data of rankers for studies: implements `trainables.specs.plugin.DataBackend`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import check_words, find_prepared_data, prepare_data
from trainables.data.statistics import load_ranking_statistics as load_statistics
from trainables.data.tasks import SPLITS, get_task
from trainables.losses import LOSSES
from trainables.metrics import RERANKING_NOTE, describe_retrieval, get_measure
from trainables.models.model_json import read_json_object
from trainables.models.pretrained import hash_model, load_tokenizer, resolve_model_path
from trainables.rankers.evaluation import EvaluatedDocuments
from trainables.rankers.label_noise import compute_hidden_weak_labels
from trainables.smoothing import DISTRIBUTIONS
from trainables.text.text_overlap import check_overlaps, describe_overlap
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "check_data",
    "compute_query_attributes",
    "describe_data",
    "find_prepared_data",
    "load_statistics",
    "prepare_data",
    "summarize_data",
]

_N_BINS = 20
"""Bins of the histogram of weak labels over [0, 1]."""
_EVALUATED_SPLITS = ("dev", "test")


def check_data(study: Any, prepared: RankingDataset) -> None:
    """Raise an error, before anything is trained, if the study cannot use this data.

    Raises:
        UserError: if a weak label is missing although a variant needs it (also that of a relevant document, if the task
            has label noise), the task has no dialogue turns to count, the splits share more queries than the study
            allows, a further collection has special tokens that the task lacks, or a saved ranker knows fewer tokens
            than the tokenizer of its folder with those of the task.
    """
    default, allowed = get_task(study.task.name).allowed_overlap, study.task.allowed_overlap
    check_overlaps(prepared.find_overlaps(), default if allowed is None else allowed)
    _check_sampler_scores(study, prepared)
    tokens = get_task(study.task.name).list_added_tokens(study.task)
    for each in study.evaluate:
        if unknown := {*get_task(each.task.name).list_added_tokens(each.task)} - {*tokens}:
            found = f"texts with the token {min(unknown)}, which training does not show"
            raise UserError(f"evaluate, {each.label}: task.separators", found, "false")
    asked = study.curriculum.score if study.curriculum.variants else ()
    if "turns" in asked and not get_task(study.task.name).is_dialogue:
        expected = "another score, or a task of dialogues: these queries have one turn each"
        raise UserError("curriculum.score", "'turns'", expected)
    if study.model.has_saved_head:
        _check_tokenizer(study)


def _check_tokenizer(study: Any) -> None:
    path, added = resolve_model_path(study.model.name), get_task(study.task.name).list_added_tokens(study.task)
    known, n_tokens = read_json_object(path / "config.json").get("vocab_size"), len(load_tokenizer(path, added))
    if known is None or n_tokens > known:
        found = f"{path.name!r} knows {known} tokens, and its tokenizer has {n_tokens}"
        if added:
            raise UserError(
                "task.separators", f"{found} with {' and '.join(added)}", "false, or a model that knows them"
            )
        raise UserError("model.name", found, "a tokenizer and weights that belong together")


def _check_sampler_scores(study: Any, prepared: RankingDataset) -> None:
    """Raise an error if training reads weak labels or scores of the sampler that some candidates do not have."""
    rows = {name: study.study_type.variants[name] for name in study.variants}
    losses = {name: LOSSES[row.loss] for name, row in rows.items()}
    weak = [name for name, row in rows.items() if DISTRIBUTIONS[row.distribution].needs_sampler]
    whole = [name for name in weak if losses[name].is_per_query]
    if paired := [name for name in weak if name not in whole]:
        _check_weak_labels(study, prepared, paired[0])
    if not study.task.teacher:
        whole += [name for name in rows if losses[name].is_distillation]
    if whole:
        sampler = study.task.sampler
        if missing := int(prepared.read_candidates("train", [sampler.score_column])[sampler.score_column].isna().sum()):
            problem = f"{sampler.weak_label!r}, but {missing} candidates have no score"
            expected = f'"bm25" for {whole[0]}, which reads the scores of all candidates'
            raise UserError("task.sampler.weak_label", problem, expected)


def _check_weak_labels(study: Any, prepared: RankingDataset, variant: str) -> None:
    """Raise an error if a training document that is or may become a negative has no weak label."""
    train, sampler = prepared.read_candidates("train", ["relevant", "score", "weak_label", "bm25"]), study.task.sampler
    is_relevant = train["relevant"].to_numpy() == 1
    if missing := train.loc[~is_relevant, "weak_label"].isna().sum():
        problem = f"{sampler.weak_label!r}, but {missing} candidates have no score"
        raise UserError("task.sampler.weak_label", problem, f'"bm25" or "uniform" for {variant}')
    if study.task.label_noise == 0:
        return
    hidden = compute_hidden_weak_labels(train, sampler)[is_relevant]
    if missing := np.isnan(hidden).sum():
        problem = f"{study.task.label_noise:g}, but {missing} relevant training documents have no score"
        expected = f'0, or task.sampler.weak_label = "bm25" or "uniform" for {variant}'
        raise UserError("task.label_noise", problem, expected)


def describe_data(prepared: RankingDataset) -> dict[str, Any]:
    """Return the data's description for the report, with the distribution of the training negatives' weak labels."""
    train = prepared.read_candidates("train", ["relevant", "weak_label"])
    labels = train.query("relevant == 0")["weak_label"].dropna().to_numpy(dtype=float)
    meta, overlaps = prepared.read_metadata(), prepared.find_overlaps()
    for counts in meta["splits"].values():
        counts.pop("candidates_left_out", None)  # data that were prepared earlier lack it, and their plans stay valid
    description = {key: meta[key] for key in ("fingerprint", "documents", "skipped", "splits")}
    description |= {"overlaps": overlaps} if overlaps else {}  # absent if empty, so that earlier plans stay valid
    description |= {"repeated": prepared.repeated} if prepared.repeated else {}
    if not len(labels):
        return description
    shares = np.histogram(labels, bins=_N_BINS, range=(0, 1))[0] / len(labels)
    spread = {"mean": round(float(labels.mean()), 6), "shares": shares.round(6).tolist()}
    return description | {"weak_labels": spread}


def summarize_data(study: Any, prepared: RankingDataset) -> Iterator[str]:
    """Yield lines of text that describe the data to a person; makes the tokens if needed."""
    meta, queries, documents = prepared.read_metadata(), prepared.read_queries(), prepared.read_documents()
    yield f"task {study.task.name}, fingerprint {prepared.fingerprint}, {meta['documents']} documents"
    if noise := study.task.describe_label_noise():
        yield f"label noise: {noise}"
    for reason, count in meta["skipped"].items():
        yield f"skipped: {count} x {reason}"
    if prepared.repeated:
        yield f"merged: {prepared.repeated} x repeated query"
    yield from map(describe_overlap, prepared.find_overlaps())
    for split in SPLITS:
        if count := meta["splits"][split]["relevant_left_out"]:
            yield f"left out: {count} relevant documents in {split}, which do not fit in task.candidates"
        if count := meta["splits"][split].get("candidates_left_out"):
            key = study.task.get_number_key(split)
            yield f"left out: {count} candidates that the source names in {split}, which do not fit in {key}"
    title = f"{study.task.name_reference_ranking('BM25')} {study.analysis.metric}"
    width = max(14, len(title) + 2)
    yield f"{'split':8}{'queries':>9}{'relevant':>10}{'pool':>10}{'back-filled':>13}{title:>{width}}"
    for split in SPLITS:
        counts, metric = meta["splits"][split], _format_reference_metric(prepared, study.analysis.metric, split)
        row = f"{split:8}{counts['queries']:9}{counts['relevant']:10}{counts['pool']:10}{counts['back_filled']:13}"
        yield f"{row}{metric:>{width}}"
    first_stage = prepared.settings.get_first_stage()
    yield describe_retrieval(first_stage, meta["splits"]) if first_stage else RERANKING_NOTE
    for name, texts in (("queries", queries["text"]), ("candidates", documents["text"])):
        words = np.quantile([len(text.split()) for text in texts], [0.5, 0.95, 1])
        yield f"words of {name}: {words[0]:.0f} in the median, {words[1]:.0f} at 95 %, {words[2]:.0f} at most"
    if limit := study.task.document_words:
        yield f"the model reads the first {limit} words of a candidate (task.document_words)"
    yield from check_words(documents["text"])
    yield _summarize_tokens(study, prepared)


def compute_query_attributes(study: Any, resolved: Any, difficulty_model_id: str) -> "pd.DataFrame":
    """Return the attributes by which the report groups the evaluated queries.

    Returns:
        Table with the columns split and query_id. It also has `turns` and `domain` if the task has them, and
        `difficulty/<score>` (low is easy) for each score of the study's curricula that the cache contains.
    """
    import pandas as pd  # imported here, since it takes noticeable time

    from trainables.difficulty.cache import read_difficulties

    folder = study.cache_folder / "prepared" / resolved.fingerprint
    prepared = RankingDataset(resolved.fingerprint, folder, study.task, resolved.domains)
    names = [(split, name) for split in _EVALUATED_SPLITS for name in prepared.read_query_ids(split)]
    attributes = pd.DataFrame(names, columns=["split", "query_id"])
    texts = prepared.read_queries().set_index("query_id").loc[attributes["query_id"]]
    task = get_task(study.task.name)
    if task.is_dialogue:
        attributes["turns"] = [len(task.split_utterances(text)) for text in texts["text"]]
    domains = prepared.read_query_domains()
    if domains is not None:
        attributes["domain"] = domains.reindex(attributes["query_id"]).to_numpy()
    for score in study.curriculum.score if study.curriculum.variants else ():
        order = CurriculumSettings(
            score=score, vectors=resolved.vectors, scorer=difficulty_model_id, words=study.curriculum.words
        )
        scores = read_difficulties(prepared.folder, order, resolved.model_digest)
        if scores is not None:
            values = attributes[["split", "query_id"]].merge(scores, how="left")["difficulty"]
            if values.notna().all():  # NaN: the scoring run has no test evaluation yet
                attributes[f"difficulty/{score}"] = values
    return attributes


def _format_reference_metric(prepared: RankingDataset, metric: str, split: str) -> str:
    """Return the metric of the ranking that is not trained: BM25's, or that of the first stage.

    Return "-" for a split that lacks the scores of the ranking or the candidates that the metric needs.
    """
    required, is_retrieved = get_measure(metric).required_candidates, prepared.settings.is_retrieved(split)
    table = prepared.read_candidates(split)
    scores = table["score" if is_retrieved else "bm25"].to_numpy(dtype=float)
    is_evaluated = split in _EVALUATED_SPLITS or prepared.settings.retrieval_depth is None
    fits = required is None or (table.groupby("query_id").size() == required).all()
    if not fits or np.isnan(scores).any() or not is_evaluated:
        return "-"
    evaluated = EvaluatedDocuments(prepared.read_evaluated(split), len(scores))
    return f"{evaluated.compute_metric(metric, evaluated.add_missed(scores)):.4f}"


def _summarize_tokens(study: Any, prepared: RankingDataset) -> str:
    from trainables.data.ranking_tokens import tokenize_pairs

    path = resolve_model_path(study.model.name)
    length, added = study.model.max_length, get_task(study.task.name).list_added_tokens(study.task)
    tokenizer = load_tokenizer(path, added)
    tokens = tokenize_pairs(prepared, tokenizer, hash_model(path, study.model), length, study.cache_folder)
    return f"{tokens.describe_lengths('pair')} to model.max_length = {length}"
