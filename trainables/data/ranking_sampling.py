"""Indexes the document pools and samples the candidates, in several processes.

Each piece of work is saved as soon as it is done, so an interrupted preparation continues from there.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from trainables.data.files.candidates_run import Ranking
from trainables.data.negatives.candidates import (
    QUERIES_PER_PART,
    QueryToSample,
    RetrievedCandidates,
    SampledCandidates,
    SamplerIndex,
    compute_weak_labels,
    read_parts,
    retrieve_part,
    sample_part,
)
from trainables.data.negatives.negative_sampler import PoolError
from trainables.data.negatives.pool import DocumentPool
from trainables.data.tasks import IRDataset, get_task
from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.specs.samplers import SAMPLERS
from trainables.utils.checksums import is_intact, write_folder_with_checksums
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json
from trainables.utils.plugins import LOADED, load_plugins
from trainables.utils.system import block_sigint, count_cores, exit_with_parent

ProgressCallback = Callable[[str], None]


class CandidateSampler:
    """Samples the candidates of a task, split by split.

    Args:
        work_folder: Folder of indexes and finished parts. Existing intact parts are reused.
        settings: Settings of the task.
        dataset: The task's dataset.
        report: Called with a line of text at every step.
    """

    def __init__(
        self, work_folder: Path, settings: RankerTaskSettings, dataset: IRDataset, report: ProgressCallback
    ) -> None:
        self._work_folder, self._settings, self._dataset, self._report = work_folder, settings, dataset, report
        self._pools: dict[str, DocumentPool] = {}
        self._items: dict[str, list[QueryToSample]] = {}

    def check_pools(self, chosen: Mapping[str, list[str]]) -> None:
        """Check that the pools are large enough, before anything is indexed or sampled.

        Raises:
            UserError: If a pool has too few documents for `candidates` or `train_negatives`. Names the largest number
                that would do.
        """
        tightest = dict[str, tuple[int, str]]()
        for split, query_ids in chosen.items():
            n_documents, key = len(self._get_pool(split).ids), self._settings.get_number_key(split)
            self._items[split] = items = self._get_pool(split).prepare_queries(split, query_ids, self._settings)
            for item in items:
                left = n_documents - len(item.excluded)
                if left >= item.n_negatives:
                    continue
                if key == "task.candidates" and left:  # so few candidates that what is left is enough
                    most = left + (1 if split == "train" else len(item.relevant) + item.n_left_out)
                else:
                    most = left
                reason = f"since {left} documents of the {split} pool may be sampled for query {item.query.id!r}"
                tightest[key] = min(tightest.get(key, (most, reason)), (most, reason))
        for key, (most, reason) in tightest.items():
            value = getattr(self._settings, key.removeprefix("task."))
            raise UserError(key, value, f"{f'at most {most}' if most else 'other documents'}, {reason}")

    def sample_split(self, split: str, query_ids: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
        """Sample the candidates of a split's queries.

        Returns:
            The table of candidates in the order of the queries, and the counts: queries, pool (documents), back_filled
            (rows drawn at random), relevant (rows), and relevant_left_out (relevant documents for which there are too
            few candidates). With the sampler "given", also candidates_left_out (those of the source, likewise), if
            there are any.

        Raises:
            UserError: If the pool contains no word, or if the sampler is "given" and the task names no candidates.
            PoolError: If the pool is too small, see `check_pools`.
        """
        settings, pool = self._settings.get_sampler_settings(split), self._get_pool(split)
        items = self._items.pop(split, None) or pool.prepare_queries(split, query_ids, self._settings)
        self._check_candidates_are_named(split, items)
        bm25_settings = settings.model_copy(update={"name": "bm25"})
        needs_bm25 = split != "train" or settings.weak_label == "bm25"
        index = self._build_index(split, pool, settings)
        bm25 = self._build_index(split, pool, bm25_settings) if needs_bm25 else None
        self._report(f"sampling candidates of {len(query_ids)} {split} queries")
        files = self._compute_parts(split, items, sample_part, (index, bm25), f"{split} candidates")
        sampled = read_parts(files, SampledCandidates)
        counts = {
            "queries": len(query_ids),
            "pool": len(pool.ids),
            "back_filled": int(sampled.drawn.sum()),
            "relevant": sum(len(item.relevant) for item in items),
            "relevant_left_out": sum(item.n_left_out for item in items),
        }
        if settings.name == "given" and (n_left_out := sum(map(_count_candidates_left_out, items))):
            counts["candidates_left_out"] = n_left_out
            key = self._settings.get_number_key(split)
            self._report(
                f"left out: {n_left_out} candidates that the source names in {split}, which do not fit in {key}"
            )
        return _build_table(split, pool, items, sampled, settings), counts

    def retrieve_split(self, split: str, query_ids: list[str]) -> dict[str, Ranking]:
        """Return the first `retrieval_depth` documents of each query by the evaluation sampler, by query id.

        Raises:
            UserError: If no document of the pool contains a word, or if the sampler is "given" and the task names no
                candidates.
        """
        settings, pool = self._settings.get_sampler_settings(split), self._get_pool(split)
        items = pool.prepare_searches(split, query_ids, settings.protocol.keep_query_text)
        self._check_candidates_are_named(split, items)
        if settings.name == "given":
            self._check_lists_are_whole(split, items)
        index = self._build_index(split, pool, settings)
        depth = self._settings.retrieval_depth
        self._report(f"retrieving {depth} documents for each of {len(query_ids)} {split} queries")
        files = self._compute_parts(split, items, retrieve_part, (depth, index), f"{split} candidates")
        found = read_parts(files, RetrievedCandidates)
        ends = np.cumsum(found.lengths)
        rows = [slice(start, end) for start, end in zip(ends - found.lengths, ends, strict=True)]
        return {
            name: Ranking([pool.ids[position] for position in found.positions[own].tolist()], found.scores[own])
            for name, own in zip(query_ids, rows, strict=True)
        }

    def _check_lists_are_whole(self, split: str, items: list[QueryToSample]) -> None:
        """Raise UserError if lists without scores would be cut: nothing says which of their documents are the first."""
        longest = max(len(item.query.candidates) for item in items)
        depth = self._settings.retrieval_depth or 0
        if depth < longest and any(np.isnan(item.query.candidate_scores).any() for item in items):
            found = f"{depth}, but the source lists up to {longest} documents for a {split} query, without scores"
            raise UserError(
                "task.depth", found, f"at least {longest}, or task.candidates_run, a run with scores or ranks"
            )

    def _check_candidates_are_named(self, split: str, items: list[QueryToSample]) -> None:
        """Raise UserError if the sampler is "given" and the task names no candidates in the split."""
        if self._settings.get_sampler_settings(split).name != "given" or any(len(it.query.candidates) for it in items):
            return
        skipped = "".join(f"; skipped: {count} x {name}" for name, count in self._dataset.skipped.items())
        found = f"'given', but the task names no candidates in {split}{skipped}"
        raise UserError(_get_sampler_key(split), found, "another sampler, or a task with candidates")

    def _get_pool(self, split: str) -> DocumentPool:
        kind, name = self._settings.get_pool(split, get_task(self._settings.name).pool), self._name_pool(split)
        include_candidates = self._settings.get_sampler_settings(split).name == "given"
        self._pools = {name: self._pools.get(name) or DocumentPool(self._dataset, kind, split, include_candidates)}
        return self._pools[name]

    def _name_pool(self, split: str) -> str:
        is_whole = self._settings.get_pool(split, get_task(self._settings.name).pool) == "all"
        return "all" if is_whole else split

    def _build_index(self, split: str, pool: DocumentPool, settings: SamplerSettings) -> SamplerIndex:
        piece_size = SAMPLERS[settings.name].piece_size
        index_settings = settings.model_dump(mode="json", include={"name", "preset", "encoder"})
        folder = self._work_folder / f"{self._name_pool(split)}-{settings.name}-{hash_json(index_settings)}"
        if piece_size != 0:
            width = piece_size or len(pool.ids)
            starts = {folder / f"{number:05}": first for number, first in enumerate(range(0, len(pool.ids), width))}
            missing = [(piece, first) for piece, first in starts.items() if not is_intact(piece, remove_damaged=True)]
            if missing:
                self._report(f"indexing {len(pool.ids)} documents for {settings.name}, {split}")
            jobs = ((settings, piece, pool.get_texts(first, width)) for piece, first in missing)
            try:
                _run_in_processes(_build_piece, jobs, len(missing), "index")
            except PoolError as error:
                expected = f"other documents ({error} in {split})"
                raise UserError(_get_sampler_key(split), settings.name, expected) from error
        return SamplerIndex(folder, settings, len(pool.ids))

    def _compute_parts(
        self,
        split: str,
        items: list[QueryToSample],
        compute: Callable[..., None],
        arguments: tuple[Any, ...],
        title: str,
    ) -> list[Path]:
        """Return the files of all parts, after computing the missing ones."""
        starts = range(0, len(items), QUERIES_PER_PART)
        files = [self._work_folder / f"{split}-{number:05}.npz" for number in range(len(starts))]
        missing = [
            (file, first) for file, first in zip(files, starts, strict=True) if not is_intact(file, remove_damaged=True)
        ]
        jobs = ((file, items[first : first + QUERIES_PER_PART], *arguments) for file, first in missing)
        _run_in_processes(compute, jobs, len(missing), title)
        return files


def _get_sampler_key(split: str) -> str:
    return f"task.{'sampler' if split == 'train' else 'evaluation_sampler'}.name"


def _count_candidates_left_out(item: QueryToSample) -> int:
    """Return how many candidates of the source are more than the negatives of a query."""
    return max(0, len(np.setdiff1d(item.query.candidates, item.excluded)) - item.n_negatives)


def _build_piece(settings: SamplerSettings, folder: Path, texts: list[str]) -> None:
    with write_folder_with_checksums(folder) as draft:
        SAMPLERS[settings.name].build(draft, texts, settings)


def _start_worker(plugins: tuple[str, ...]) -> None:
    exit_with_parent()
    load_plugins(plugins)


def _run_in_processes(function: Callable[..., None], jobs: Iterable[tuple[Any, ...]], count: int, title: str) -> None:
    """Call a function once per job, in one process per core if there are several jobs and cores."""
    with tqdm(total=count, desc=title, disable=None, leave=False) as bar:
        workers = min(count, count_cores())
        if workers < 2:
            for job in jobs:
                function(*job)
                bar.update()
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, context, _start_worker, (tuple(LOADED),)) as pool:
            try:
                with block_sigint():
                    parts = [pool.submit(function, *job) for job in jobs]
                for done in as_completed(parts):
                    done.result()
                    bar.update()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _build_table(
    split: str, pool: DocumentPool, items: list[QueryToSample], sampled: SampledCandidates, settings: SamplerSettings
) -> pd.DataFrame:
    """Return the table of candidates that `RankingDataset.read_candidates` describes."""
    names = np.repeat([item.query.id for item in items], sampled.lengths)
    positions, grades = sampled.positions.tolist(), pool.get_grades(split, items)
    relevant = np.concatenate(
        [np.arange(n) < len(item.relevant) for item, n in zip(items, sampled.lengths.tolist(), strict=True)]
    )
    pairs = zip(names.tolist(), positions, strict=True)
    return pd.DataFrame(
        {
            "split": split,
            "query_id": names,
            "document_id": [pool.ids[position] for position in positions],
            "relevant": relevant.astype(np.int8),
            "grade": np.array([grades.get(pair, 0) for pair in pairs], dtype=np.int8),
            "score": sampled.scores,
            "weak_label": compute_weak_labels(sampled, settings),
            "bm25": sampled.bm25,
        }
    )
