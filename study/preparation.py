"""What a study's data is, once it is prepared, and whether the study can be run on it."""

import functools
from typing import Any

import numpy as np
import pandas as pd

from study.config import Study
from study.housekeeping import clean
from study.length import settled, told
from study.systems import weakly_supervised
from trainables import weights
from trainables.data import SPLITS, task
from trainables.data.prepared import Prepared, prepare
from trainables.errors import UserError
from trainables.metrics import measure

_BINS = 20
"""Of the distribution of weak labels over [0, 1]."""


def check(study: Study, prepared: Prepared) -> None:
    """Refuses, before anything is trained, data that this study cannot be run on.

    Raises:
        UserError: a training query has too few documents that are not relevant, no weak label where one is needed, or
            no turns to count.
    """
    train = prepared.candidates("train")
    others = train[train["relevant"] == 0]
    fewest = int(others.groupby("query_id").size().min())
    if fewest < study.training.negatives:
        expected = f"at most {fewest}: a query has that many candidates that are not relevant; or more task.candidates"
        raise UserError("training.negatives", study.training.negatives, expected)
    weak = weakly_supervised(study)
    if weak and others["weak_label"].isna().any():
        what = f"{study.task.sampler.weak_label!r}, but {others['weak_label'].isna().sum()} candidates have no score"
        raise UserError("task.sampler.weak_label", what, f'"bm25" or "uniform" for {weak[0]}')
    asked = study.curriculum.score if study.curriculum.variants else ()
    if "turns" in asked and not task(study.task.name).dialogue:
        expected = "another score, or a task of dialogues: these queries have one turn each"
        raise UserError("curriculum.score", "'turns'", expected)


def described(prepared: Prepared) -> dict[str, Any]:
    """What a report tells of the data: fingerprint, counts, and how the training negatives' weak labels are spread."""
    labels = prepared.candidates("train").query("relevant == 0")["weak_label"].dropna().to_numpy(dtype=float)
    meta = prepared.meta()
    kept = {key: meta[key] for key in ("fingerprint", "documents", "skipped", "splits")}
    if not len(labels):
        return kept
    shares = np.histogram(labels, bins=_BINS, range=(0, 1))[0] / len(labels)
    spread = {"mean": round(float(labels.mean()), 6), "shares": shares.round(6).tolist()}
    return kept | {"weak_labels": spread}


def summarise(study: Study) -> None:
    """Prepares the data and prints what it is.

    Raises:
        UserError: the task or the model is not what the study says.
    """
    path = weights.folder(study.model.name)
    weights.check(path, study.model)
    clean(study)
    prepared = prepare(study.task, study.cache, functools.partial(print, flush=True))
    check(settled(study, prepared), prepared)
    meta, queries, documents = prepared.meta(), prepared.queries(), prepared.documents()
    print(f"task {study.task.name}, fingerprint {prepared.fingerprint}, {meta['documents']} documents")
    for reason, count in meta["skipped"].items():
        print(f"skipped: {count} x {reason}")
    for split in SPLITS:
        if count := meta["splits"][split]["relevant_left_out"]:
            print(f"left out: {count} relevant documents in {split}, more than task.candidates leaves room for")
    print(
        f"{'split':8}{'queries':>9}{'relevant':>10}{'pool':>10}{'back-filled':>13}{'BM25 ' + study.analysis.metric:>14}"
    )
    for split in SPLITS:
        counts, found = meta["splits"][split], _bm25(prepared.candidates(split), study, split)
        row = f"{split:8}{counts['queries']:9}{counts['relevant']:10}{counts['pool']:10}{counts['back_filled']:13}"
        print(f"{row}{found:>14}")
    for name, texts in (("queries", queries["text"]), ("candidates", documents["text"])):
        words = np.quantile([len(text.split()) for text in texts], [0.5, 0.95, 1])
        print(f"words of {name}: {words[0]:.0f} in the median, {words[1]:.0f} at 95 %, {words[2]:.0f} at most")
    _tokens(study, prepared)
    if study.training.epochs is not None:
        print(told(study, prepared))


def _bm25(candidates: pd.DataFrame, study: Study, split: str) -> str:
    """The metric of BM25's own order, of splits with as many candidates as it needs."""
    judged, n = measure(study.analysis.metric), study.task.candidates_of(split)
    if judged.candidates not in (None, n) or candidates["bm25"].isna().any():
        return "-"
    scores, relevant = (candidates[name].to_numpy(dtype=float) for name in ("bm25", "relevant"))
    return f"{judged.overall(scores, relevant, np.full(len(scores) // n, n)):.4f}"


def _tokens(study: Study, prepared: Prepared) -> None:
    from trainables.cross_encoder import tokenizer
    from trainables.data.tokens import tokens

    path = weights.folder(study.model.name)
    length, made = study.model.max_length, tokenizer(path, task(study.task.name).added_tokens)
    found = tokens(prepared, made, weights.files_digest(path), length, study.cache)
    middle, high = np.quantile(found.lengths, [0.5, 0.95])
    share = f"{found.truncated / len(found):.1%} cut to fit model.max_length = {length}"
    print(f"tokens of a pair: {middle:.0f} in the median, {high:.0f} at 95 %; {share}")
