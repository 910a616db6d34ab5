"""Indexes the pools and samples the candidates, in several processes, each piece kept as soon as it is done."""

import multiprocessing
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from trainables.data.negatives.base import PoolError, sampler
from trainables.data.negatives.candidates import (
    QUERIES_PER_PART,
    Index,
    Sampled,
    Wanted,
    read_part,
    sample_part,
    weak_labels,
)
from trainables.data.negatives.pool import Pool
from trainables.data.tasks import Collection, task
from trainables.specs.ranker import SamplerSettings, TaskSettings
from trainables.utils.checksums import checked_folder, intact
from trainables.utils.errors import UserError
from trainables.utils.hashing import digest
from trainables.utils.system import cores, deaf, end_with_parent

Progress = Callable[[str], None]


class Preparation:
    """The candidates of a task, split by split.

    Args:
        work: folder of indexes and finished parts; what is in it already is taken as done.
        settings: the task.
        collection: its text.
        report: called with a line of text at every step.
    """

    def __init__(self, work: Path, settings: TaskSettings, collection: Collection, report: Progress) -> None:
        self._work, self._settings, self._collection, self._report = work, settings, collection, report
        self._kind = settings.pool or task(settings.name).pool
        self._pools: dict[str, Pool] = {}

    def split(self, split: str, query_ids: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
        """The candidates of these queries, in their order, and the counts: queries, pool, and the
        rows that are back_filled, relevant, or relevant_left_out because there are too many.

        Raises:
            UserError: the pool is too small for that many candidates, or holds no word; no candidates are given.
        """
        try:
            return self._split(split, query_ids)
        except UserError:
            shutil.rmtree(self._work, ignore_errors=True)  # of no use to whoever asks again
            raise

    def _split(self, split: str, query_ids: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
        settings, pool, size = self._settings.sampler_of(split), self._pool(split), self._settings.candidates_of(split)
        wanted = pool.wanted(split, query_ids, size, self._settings.relevant_from)
        key = "sampler" if split == "train" else "evaluation_sampler"
        if settings.name == "given" and not any(len(one.query.given) for one in wanted):
            raise UserError(f"task.{key}.name", "'given'", f"another: the task names no candidates in {split}")
        words = settings.model_copy(update={"name": "bm25"})
        asked = split != "train" or settings.weak_label == "bm25"
        try:
            index = self._index(split, pool, settings)
            bm25 = self._index(split, pool, words) if asked else None
            self._report(f"sampling candidates of {len(query_ids)} {split} queries")
            sampled = self._sampled(split, wanted, size, index, bm25)
        except PoolError as error:
            own = "train_candidates" if split == "train" and self._settings.train_candidates else "candidates"
            raise UserError(f"task.{own}", size, f"fewer, or other documents: {error} in {split}") from error
        counts = {
            "queries": len(query_ids),
            "pool": len(pool.ids),
            "back_filled": int(sampled.drawn.sum()),
            "relevant": sum(len(one.relevant) for one in wanted),
            "relevant_left_out": sum(one.left_out for one in wanted),
        }
        return _table(split, pool, wanted, sampled, settings), counts

    def _pool(self, split: str) -> Pool:
        name, given = "all" if self._kind == "all" else split, self._settings.sampler_of(split).name == "given"
        self._pools = {name: self._pools.get(name) or Pool(self._collection, self._kind, split, given)}
        return self._pools[name]

    def _index(self, split: str, pool: Pool, settings: SamplerSettings) -> Index:
        kind = sampler(settings.name)
        about = settings.model_dump(mode="json", include={"name", "k1", "b", "words", "encoder"})
        folder = self._work / f"{'all' if self._kind == 'all' else split}-{settings.name}-{digest(about)}"
        if kind.piece != 0:
            width = kind.piece or len(pool.ids)
            starts = {folder / f"{number:05}": first for number, first in enumerate(range(0, len(pool.ids), width))}
            missing = [(place, first) for place, first in starts.items() if not intact(place, remove=True)]
            if missing:
                self._report(f"indexing {len(pool.ids)} documents for {settings.name}, {split}")
            jobs = ((settings, place, pool.texts(first, width)) for place, first in missing)
            _everywhere(_build, jobs, len(missing), "index")
        return Index(folder, settings, len(pool.ids))

    def _sampled(self, split: str, wanted: list[Wanted], size: int, index: Index, bm25: Index | None) -> Sampled:
        starts = range(0, len(wanted), QUERIES_PER_PART)
        files = [self._work / f"{split}-{number:05}.npz" for number in range(len(starts))]
        missing = [(file, first) for file, first in zip(files, starts, strict=True) if not intact(file, remove=True)]
        jobs = ((file, wanted[first : first + QUERIES_PER_PART], size, index, bm25) for file, first in missing)
        _everywhere(sample_part, jobs, len(missing), f"{split} candidates")
        return Sampled(*(np.concatenate(arrays) for arrays in zip(*map(read_part, files), strict=True)))


def _build(settings: SamplerSettings, place: Path, texts: list[str]) -> None:
    with checked_folder(place) as draft:
        sampler(settings.name).build(draft, texts, settings)


def _everywhere(function: Callable[..., None], jobs: Iterable[tuple[Any, ...]], count: int, title: str) -> None:
    """Calls `function` with each of `count` arguments: here, or if there are several in a process a core."""
    with tqdm(total=count, desc=title, disable=None, leave=False) as bar:
        workers = min(count, cores())
        if workers < 2:
            for job in jobs:
                function(*job)
                bar.update()
            return
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), end_with_parent) as pool:
            try:
                with deaf():
                    parts = [pool.submit(function, *job) for job in jobs]
                for done in as_completed(parts):
                    done.result()
                    bar.update()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _table(split: str, pool: Pool, wanted: list[Wanted], sampled: Sampled, settings: SamplerSettings) -> pd.DataFrame:
    """split, query_id, document_id, relevant, grade, score, weak_label, bm25."""
    size, grades = sampled.positions.shape[1], pool.grades(split, wanted)
    names = np.repeat([one.query.id for one in wanted], size)
    positions = sampled.positions.reshape(-1)
    relevant = np.concatenate([np.arange(size) < len(one.relevant) for one in wanted])
    found = [grades.get((name, place), 0) for name, place in zip(names.tolist(), positions.tolist(), strict=True)]
    return pd.DataFrame(
        {
            "split": split,
            "query_id": names,
            "document_id": [pool.ids[place] for place in positions.tolist()],
            "relevant": relevant.astype(np.int8),
            "grade": np.array(found, dtype=np.int8),
            "score": sampled.scores.reshape(-1),
            "weak_label": weak_labels(sampled, settings).reshape(-1),
            "bm25": sampled.bm25.reshape(-1),
        }
    )
