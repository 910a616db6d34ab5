"""Scores chunks in this process or in several processes of this machine."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

from trainables.models.precision import Precision
from trainables.reranking.chunk_scorer import ChunkScorer, Scores
from trainables.text.tokens import TokenizedTexts
from trainables.utils.errors import MachineError
from trainables.utils.system import block_sigint, exit_with_parent

NumberedChunk = tuple[int, TokenizedTexts]
NumberedScores = tuple[int, Scores]

_scorers = list[ChunkScorer]()
"""Scorer of a worker process, at most one."""


class LocalWorkers(NamedTuple):
    """Processes of this machine.

    Attributes:
        processes: number of processes. A single one is this process.
    """

    models: Sequence[Path]
    precision: Precision
    threads: int
    processes: int

    def score(self, chunks: Iterator[NumberedChunk]) -> Iterator[NumberedScores]:
        """Yield the scores of the chunks, each with its number, as they become ready.

        Few chunks are in memory at once.

        Raises:
            MachineError: if a process ends.
        """
        if self.processes == 1:
            scorer = ChunkScorer(self.models, self.precision, self.threads)
            yield from ((number, scorer.score(chunk)) for number, chunk in chunks)
            return
        context = multiprocessing.get_context("spawn")
        settings = (self.models, self.precision, self.threads)
        with ProcessPoolExecutor(self.processes, context, _start_worker, settings) as executor:
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


def _start_worker(models: Sequence[Path], precision: Precision, threads: int) -> None:
    exit_with_parent()
    _scorers.append(ChunkScorer(models, precision, threads))


def _score(chunk: TokenizedTexts) -> Scores:
    return _scorers[0].score(chunk)
