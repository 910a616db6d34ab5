"""Scores chunks in this process or in several processes of this machine, on its processor or on its GPUs."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from trainables.models.precision import Precision
from trainables.reranking.chunk_scorer import ChunkScorer, Scores
from trainables.specs.environment import DeviceType
from trainables.text.tokens import TokenizedTexts
from trainables.utils.errors import MachineError
from trainables.utils.system import block_sigint, exit_with_parent

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

NumberedChunk = tuple[int, TokenizedTexts]
NumberedScores = tuple[int, Scores]
ScorerSettings = tuple[Sequence[Path], Precision, int, DeviceType]

_scorers = list[ChunkScorer]()
"""Scorer of a worker process, at most one."""
_settings = list[ScorerSettings]()
"""Arguments of the scorer of a worker process, at most one tuple."""


def list_gpus() -> list[str]:
    """Return the GPUs that torch sees in this process, by their names in CUDA_VISIBLE_DEVICES."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
    return names.split(",")[:count]


class LocalWorkers(NamedTuple):
    """Processes of this machine.

    Attributes:
        processes: number of processes. A single one is this process.
        gpus: GPUs as `list_gpus` returns them; each process uses one, in turn. If empty, processors score.
    """

    models: Sequence[Path]
    precision: Precision
    threads: int
    processes: int
    gpus: Sequence[str] = ()

    def score(self, chunks: Iterator[NumberedChunk]) -> Iterator[NumberedScores]:
        """Yield the scores of the chunks, each with its number, as they become ready.

        Few chunks are in memory at once.

        Raises:
            MachineError: if a process ends, or a GPU fails.
        """
        settings: ScorerSettings = (self.models, self.precision, self.threads, "cuda" if self.gpus else "cpu")
        if self.processes == 1:
            scorer = ChunkScorer(*settings)
            yield from ((number, scorer.score(chunk)) for number, chunk in chunks)
            return
        context = multiprocessing.get_context("spawn")
        places = context.SimpleQueue()
        for number in range(self.processes):
            places.put(self.gpus[number % len(self.gpus)] if self.gpus else None)
        with ProcessPoolExecutor(self.processes, context, _start_worker, (places, settings)) as executor:
            pending = dict[Future[Scores], int]()
            try:
                for number, chunk in chunks:
                    with block_sigint():  # the processes start with the first chunk
                        pending[executor.submit(_score, chunk)] = number
                    if len(pending) > self.processes:
                        yield from _take_finished(pending)
                while pending:
                    yield from _take_finished(pending)
            except BrokenProcessPool as error:
                raise MachineError("a process that scored pairs has ended") from error


def _take_finished(pending: dict[Future[Scores], int]) -> Iterator[NumberedScores]:
    for future in wait(pending, return_when=FIRST_COMPLETED).done:
        yield pending.pop(future), future.result()


def _start_worker(places: "SimpleQueue[str | None]", settings: ScorerSettings) -> None:
    exit_with_parent()
    if (gpu := places.get()) is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # read when CUDA starts
    _settings.append(settings)


def _score(chunk: TokenizedTexts) -> Scores:
    if not _scorers:  # here and not at the start, so that its errors reach the command
        _scorers.append(ChunkScorer(*_settings[0]))
    return _scorers[0].score(chunk)
