"""Re-ranks a run: reads it, tokenises its texts, scores its pairs in chunks, and writes the new run.

Everything that is computed is kept in a folder next to the new run, so that the same command resumes where it was
killed. A chunk has a fixed number of pairs in the order of the run; neither chunks nor their scores depend on how many
processes work.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from filelock import FileLock, Timeout

from trainables.data.ranking_tokens import PairFormat, TextTokens, join_pairs
from trainables.exchange.input_rules import read_input_rules
from trainables.models.pretrained import hash_encoder_files
from trainables.reranking.resolved_models import get_max_length, load_shared_tokenizer
from trainables.reranking.run_tokens import open_tokens, read_pair_format, write_tokens
from trainables.reranking.texts import TextSource, open_texts
from trainables.specs.run_spec import Environment
from trainables.text.tokens import TokenizedTexts
from trainables.text.trec_files import TrecRun, is_run_with_tag, read_trec_run, write_trec_run
from trainables.utils.checksums import hash_file, is_intact, verify_file, write_with_checksum
from trainables.utils.errors import UserError
from trainables.utils.files import check_outputs, remove_stale_files
from trainables.utils.hashing import hash_json, is_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 3
"""Part of the key of every job. Increase it when the same input gives different parts."""
PAIRS_PER_CHUNK = 2048
"""Pairs of a chunk; the last one may have fewer."""
_LOCK, _SCORES = "lock", "scores-{}.npy"

Scores = npt.NDArray[np.float32]


class Workers(Protocol):
    """Processes that score chunks."""

    def score(self, chunks: Iterator[tuple[int, TokenizedTexts]]) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of the chunks, each with its number, in any order."""


@dataclass(frozen=True)
class Job:
    """A re-ranking.

    Attributes:
        models: folders of the models; the scores of several are averaged.
        run: file of the run.
        queries: source of the queries, as `open_texts` takes it.
        documents: source of the documents, likewise.
        out: file of the new run.
        tag: last field of its lines.
        depth: documents of each query that are re-ranked. If None, all.
        max_length: maximum number of tokens of a pair. If None, as many as the models take.
        precision: "fp32" or "bf16".
        threads: threads of each process.
        environment: environment of the processes that compute the scores.
    """

    models: Sequence[Path]
    run: Path
    queries: str
    documents: str
    out: Path
    tag: str
    depth: int | None
    max_length: int | None
    precision: str
    threads: int
    environment: Environment


class Reporter(Protocol):
    """Receives what a job does."""

    def log(self, line: str) -> None:
        """Report something that happened."""

    def update(self, activity: str, done: int, total: int, start: int) -> None:
        """Report the progress of an activity."""


def rerank(job: Job, make_workers: Callable[[str], Workers], reporter: Reporter) -> int:
    """Re-rank a run, and return the number of its pairs.

    Raises:
        UserError: if an input is wrong, or if a model gives a score that is not finite.
        MachineError: if a process that scores ends.
    """
    texts = [Path(source).expanduser() for source in (job.queries, job.documents)]
    own = f"run with the tag {job.tag}"
    check_outputs("--out", [job.out], lambda path: is_run_with_tag(path, job.tag), [job.run, *texts], own)
    tokenizer = load_shared_tokenizer(list(job.models))
    rules = read_input_rules(job.models)
    form = read_pair_format(tokenizer, get_max_length(list(job.models), tokenizer, job.max_length), rules)
    queries = open_texts(job.queries, "queries").change_texts(rules.prepare_query)
    documents = open_texts(job.documents, "documents").change_texts(rules.prepare_document)
    run = read_trec_run(job.run, job.depth, reporter.log)
    key = _compute_key(job, queries, documents, form)
    with _open_parts(job.out, key) as folder:
        query_tokens = _load_tokens(folder / "queries", queries, run.queries, tokenizer, form, reporter)
        document_tokens = _load_tokens(folder / "documents", documents, run.documents, tokenizer, form, reporter)
        parts = _Parts(folder, run, query_tokens, document_tokens, form, reporter)
        parts.compute_missing(make_workers, key)
        scores = parts.join()
        _reject_infinite(job, run, scores)
        write_trec_run(job.out, run, scores, job.tag)
    return len(run)


class _Parts:
    """Scores of the chunks, each in a file."""

    def __init__(
        self,
        folder: Path,
        run: TrecRun,
        queries: TextTokens,
        documents: TextTokens,
        form: PairFormat,
        reporter: Reporter,
    ) -> None:
        self._folder, self._run, self._form, self._reporter = folder, run, form, reporter
        self._queries, self._documents = queries, documents
        self._n_chunks = -(-len(run) // PAIRS_PER_CHUNK)

    def compute_missing(self, make_workers: Callable[[str], Workers], key: str) -> None:
        """Compute the chunks without intact scores."""
        numbers, log = range(self._n_chunks), self._reporter.log
        missing = [number for number in numbers if not is_intact(self._get_path(number), remove_damaged=True, log=log)]
        if not missing:
            return
        start = done = len(self._run) - sum(len(self._get_pairs(number)) for number in missing)
        if start:
            self._reporter.log(f"{start} of {len(self._run)} pairs were scored before")
        self._reporter.update("pairs scored", done, len(self._run), start)
        for number, scores in make_workers(key).score((number, self._make_chunk(number)) for number in missing):
            with write_with_checksum(self._get_path(number)) as temporary, temporary.open("wb") as stream:
                np.save(stream, scores)
            done += len(scores)
            self._reporter.update("pairs scored", done, len(self._run), start)

    def join(self) -> Scores:
        """Return the scores of all pairs, shape (pairs,)."""
        return np.concatenate([np.load(verify_file(self._get_path(number))) for number in range(self._n_chunks)])

    def _make_chunk(self, number: int) -> TokenizedTexts:
        pairs = self._get_pairs(number)
        codes = (self._run.query_codes[pairs].astype(np.int64), self._run.document_codes[pairs].astype(np.int64))
        return join_pairs(self._queries, self._documents, *codes, self._form)

    def _get_pairs(self, number: int) -> npt.NDArray[np.int64]:
        return np.arange(number * PAIRS_PER_CHUNK, min((number + 1) * PAIRS_PER_CHUNK, len(self._run)))

    def _get_path(self, number: int) -> Path:
        return self._folder / _SCORES.format(f"{number:06}")


def _compute_key(job: Job, queries: TextSource, documents: TextSource, form: PairFormat) -> str:
    return hash_json(
        [
            FORMAT,
            PAIRS_PER_CHUNK,
            [hash_encoder_files(path) for path in job.models],
            hash_file(job.run),
            queries.compute_digest(),
            documents.compute_digest(),
            job.depth,
            form.max_length,
            job.precision,
            job.threads,
            job.environment.model_dump(mode="json"),
        ]
    )


@contextmanager
def _open_parts(out: Path, key: str) -> Iterator[Path]:
    """Yield the folder of the parts, which no other process uses.

    If the block succeeds, the parts of all jobs of this file are removed. A mistake leaves no folder without scores.
    """
    if not out.parent.is_dir():
        raise UserError("--out", f"the folder {out.parent} does not exist", "a file in an existing folder")
    remove_stale_files(out.parent)  # of a command that was killed while it wrote the run
    parts = out.with_name(f"{out.name}.parts")
    if not _is_parts_folder(parts):
        raise UserError("--out", f"{parts} exists and is not a folder of scores", "the name of another file")
    parts.mkdir(exist_ok=True)
    lock = FileLock(parts / _LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UserError("--out", f"another process writes {out}", "another file, or the end of that process") from error
    try:
        yield parts / key
        _remove_parts(parts)
    except UserError:
        if not any((parts / key).glob(_SCORES.format("*"))):
            shutil.rmtree(parts / key, ignore_errors=True)
        if [path.name for path in parts.iterdir()] == [_LOCK]:
            _remove_parts(parts)
        raise
    finally:
        lock.release()


def _is_parts_folder(parts: Path) -> bool:
    """Return whether a path is free, or a folder with nothing but the lock, the parts of jobs and hidden files."""
    if not parts.is_dir():
        return not os.path.lexists(parts)
    return all(
        is_hash(path.name) if path.is_dir() else path.name == _LOCK and path.stat().st_size == 0
        for path in parts.iterdir()
        if not path.name.startswith(".")  # such as .nfs0001, which a system leaves in any folder
    )


def _remove_parts(parts: Path) -> None:
    for path in parts.iterdir():
        if is_hash(path.name):
            shutil.rmtree(path)
    (parts / _LOCK).unlink(missing_ok=True)
    with suppress(OSError):  # somebody put a file there
        parts.rmdir()


def _load_tokens(
    folder: Path,
    source: TextSource,
    ids: pa.StringArray,
    tokenizer: "PreTrainedTokenizerBase",
    form: PairFormat,
    reporter: Reporter,
) -> TextTokens:
    """Return the tokens in a folder, "queries" or "documents"; they are made if they are missing or damaged."""
    name = folder.name
    if not is_intact(folder, remove_damaged=True, log=reporter.log):
        keeps_end = name == "queries" and form.rules.truncation == "oldest"

        def report(done: int) -> None:
            reporter.update(f"{name} tokenised", done, len(ids), 0)

        write_tokens(folder, source, ids, tokenizer, form.room, report, keeps_end)
    return open_tokens(folder)


def _reject_infinite(job: Job, run: TrecRun, scores: Scores) -> None:
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        query, document = run.queries[run.query_codes[bad[0]]], run.documents[run.document_codes[bad[0]]]
        found = f"{len(bad)} scores are not finite, first that of query {query} and document {document}"
        raise UserError("MODEL", found, "a model with finite scores in this precision")
