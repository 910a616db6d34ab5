"""Exports the evaluated candidates of a study as TREC files, for trec_eval, ir-measures and others.

    FOLDER/test.qrels            query 0 document relevance, one line a candidate; of candidates that a first stage
                                 retrieved, query 0 document grade, one line a judgement
    FOLDER/test/<system>-seed-<seed>-<run id>.run
                                 query Q0 document rank score tag, best first; the tag is <system>-<run id>

Every other split has the same files. Fields are separated by blanks. So a blank within an id, the sign %, and a # at
its start are written as in a URL: "a b" is "a%20b", and urllib.parse.unquote returns the id. Candidates with equal
scores are in order of their ids and keep their equal scores. Programs differ in how they treat such ties; this one uses
their expectation.
"""

import re
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd

from analysis.data.recorded_run import Run
from analysis.data.study_results import Results
from trainables.utils.errors import UserError
from trainables.utils.files import remove_stale_files, write_folder_atomically

_KEY = ["query_id", "document_id"]


def export_trec(results: Results, folder: Path) -> list[Path]:
    """Write every finished run, one file a split, and the relevance labels of each split: all or nothing.

    Args:
        results: a study.
        folder: a new folder, or an empty one.

    Returns:
        The files, in sorted order.

    Raises:
        UserError: if the folder is not empty or cannot be created, or no run is finished. Also if a candidate has no
            score or no id, two runs disagree about its relevance, or the study is about sentence pairs.
    """
    if results.plan.unit != "query":
        raise UserError(
            "--export-trec", f"gold similarities of {results.plan.task}", "a study of rankers: judged documents"
        )
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(str(folder), "not empty", "a new or an empty folder")
    runs = [run for run in results.runs if run.is_finished and run.files and not run.is_difficulty_scorer]
    if not runs:
        raise UserError("--export-trec", "no finished run with scores", "a study that has been run")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(str(folder), error.strerror, "a folder that can be created") from error
    remove_stale_files(folder.resolve().parent)  # of an export that was killed
    with write_folder_atomically(folder.resolve()) as temporary:
        for split in sorted({split for run in runs for split in run.files}):
            (temporary / split).mkdir()
            qrels: pd.DataFrame | None = None
            for run in (run for run in runs if split in run.files):
                ranked = _rank_candidates(run, split)
                qrels = _merge_qrels(qrels, ranked, f"{split} scores of run {run.id}")
                retrieved = ranked[ranked["score"] != -np.inf]
                tag = f"{run.config['variant']}-{run.id}"
                _write_lines(temporary / split / _name_file(run), _format_run_lines(retrieved, tag))
            assert qrels is not None
            _write_lines(temporary / f"{split}.qrels", _format_qrel_lines(qrels))
    return sorted(path for path in folder.rglob("*") if path.is_file())


def escape_blanks(text: str) -> str:
    """Replace every blank of any kind, the sign %, and a # at the start, by %XX of its UTF-8 bytes.

    Example:
        >>> escape_blanks("a b 5%"), escape_blanks("#1")
        ('a%20b%205%25', '%231')
    """
    return re.sub(r"[\s%]|^#", lambda match: quote(match[0], safe=""), text)


def _name_file(run: Run) -> str:
    seed = "" if run.seed is None else f"seed-{run.seed}-"
    return f"{quote(run.config['variant'], safe='+,()=')}-{seed}{run.id}.run"


def _rank_candidates(run: Run, split: str) -> pd.DataFrame:
    """Return the documents by query, best first, those with equal scores in order of document."""
    where, frame = f"{split} scores of run {run.id}", run.read_scores(split)
    frame = frame.astype({"score": float, "relevant": int, **dict.fromkeys(_KEY, str)})
    if frame["score"].isna().any():
        raise UserError(where, f"{frame['score'].isna().sum()} candidates without a score", "a score of each")
    if (frame[_KEY] == "").any(axis=None):
        raise UserError(where, "a query or document without an id", "an id of each")
    return frame.sort_values(["query_id", "score", "document_id"], ascending=[True, False, True], ignore_index=True)


def _merge_qrels(qrels: pd.DataFrame | None, ranked: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return all documents so far with their relevance, or their grade if they have one, by query and document."""
    if "grade" in ranked:
        ranked = ranked[ranked["grade"] >= 0].assign(relevant=ranked["grade"])
    new_qrels = ranked[[*_KEY, "relevant"]].sort_values(_KEY, ignore_index=True)
    if new_qrels.duplicated(_KEY).any():
        raise UserError(where, "the same candidate twice", "each candidate of a query once")
    if qrels is None or qrels.equals(new_qrels):
        return new_qrels
    both = pd.concat([qrels, new_qrels]).drop_duplicates().sort_values(_KEY, ignore_index=True)
    for _, row in both[both.duplicated(_KEY)].iterrows():
        found = f"different relevance of document {row['document_id']} for query {row['query_id']}"
        raise UserError(where, found, "the relevance that the other runs have")
    return both


def _format_run_lines(ranked: pd.DataFrame, tag: str) -> list[str]:
    ranks = ranked.groupby("query_id", sort=False).cumcount().to_numpy() + 1
    columns = (
        _escape_ids(ranked["query_id"]),
        _escape_ids(ranked["document_id"]),
        ranks,
        ranked["score"].to_numpy().tolist(),
    )
    name = escape_blanks(tag)
    return [f"{q} Q0 {d} {rank} {score!r} {name}\n" for q, d, rank, score in zip(*columns, strict=True)]


def _format_qrel_lines(qrels: pd.DataFrame) -> list[str]:
    columns = _escape_ids(qrels["query_id"]), _escape_ids(qrels["document_id"]), qrels["relevant"]
    return [f"{q} 0 {d} {relevant}\n" for q, d, relevant in zip(*columns, strict=True)]


def _escape_ids(column: pd.Series) -> list[str]:
    codes, names = pd.factorize(column)
    shown = np.array([escape_blanks(name) for name in names], dtype=object)
    return list(shown[codes])


def _write_lines(path: Path, lines: list[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
