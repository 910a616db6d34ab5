"""Runs in processes of their own, which can be killed: forked off one that has loaded torch, so they start at once."""

import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from trainables.specs.trial import TrialSpec

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.trainables.loaded"])


class Work(NamedTuple):
    """A run in a process: how far it is, and in the end what it found."""

    process: BaseProcess
    start: Any  # instances seen when it had taken up its state; -1 before
    seen: Any
    results: Any
    barrier: Any  # kept, because it exists as long as its maker holds it

    def result(self, timeout: float = 60) -> dict[str, Any]:
        """Returns what the run found, or raises its error."""
        found: dict[str, Any] = self.results.get(timeout=timeout)
        self.process.join()
        assert "error" not in found, found["error"]
        return found

    def wait(self, condition: Callable[[], object], timeout: float = 60) -> None:
        """Until the condition holds or the process ends."""
        deadline = time.monotonic() + timeout
        while not condition() and self.process.is_alive():
            assert time.monotonic() < deadline, "nothing happened"
            time.sleep(0.0002)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self.process.kill()
        self.process.join()


def begin(*jobs: TrialSpec) -> list[Work]:
    """Starts every job in a process of its own, all at the same time."""
    barrier = CONTEXT.Barrier(len(jobs))
    return [_begin(job, barrier) for job in jobs]


def _begin(job: TrialSpec, barrier: Any) -> Work:
    start, seen, results = CONTEXT.Value("q", -1), CONTEXT.Value("q", -1), CONTEXT.Queue()
    arguments = (job.model_dump_json(), barrier, start, seen, results)
    process = CONTEXT.Process(target=_train, args=arguments, daemon=True)
    process.start()
    return Work(process, start, seen, results, barrier)


def _train(text: str, barrier: Any, start: Any, seen: Any, results: Any) -> None:
    from trainables.specs.plugin import get_trainable

    try:
        job = TrialSpec.model_validate_json(text)
        barrier.wait()
        run = get_trainable(job.specification).training_backend.start_run(job, lambda: None)
        start.value = run.instances_seen
        threading.Thread(target=_follow, args=(run, seen), daemon=True).start()
        while (outcome := run.advance()) is None:
            pass
        results.put(outcome._replace(scores=None)._asdict() | {"scores": outcome.scores.tobytes()})
    except Exception as error:
        results.put({"error": repr(error)})
        raise


def _follow(run: Any, seen: Any) -> None:
    while True:
        seen.value = run.instances_seen
        time.sleep(0.0005)
