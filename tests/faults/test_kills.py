"""A run that is killed again and again ends with the bits of one that was left alone, and leaves nothing behind."""

import random
import time
from pathlib import Path

import pytest

from tests.trainables.processes import Work, begin
from tests.trainables.small import BATCH_SIZE, T_LS, finish, job
from trainables.specs.trial import TrialSpec
from trainables.utils.system import get_machine_id

BATCHES = 60
KILLS = 10


def hidden(cache: Path) -> set[str]:
    """Temporaries and claims among the stages."""
    found = (cache / "stages").rglob("*")
    return {path.name for path in found if path.name.startswith(".") or path.name.endswith(".claim")}


def furthest(trial: TrialSpec) -> int:
    """Instances of the newest whole checkpoint in the run's slot."""
    slot = trial.cache / "stages" / "resume" / trial.specification.id
    return max((int(path.parent.name) for path in slot.glob("[0-9]*/stage.json")), default=0)


def writing(work: Work, trial: TrialSpec) -> bool:
    """Returns True if this process is writing a checkpoint."""
    slot = trial.cache / "stages" / "resume" / trial.specification.id
    mark = f".{get_machine_id()}-{work.process.pid}-"
    return slot.is_dir() and any(mark in path.name for path in slot.iterdir())


@pytest.mark.slow
def test_kills_at_random_moments_change_no_bit(world, fresh):
    settings = {"instances": BATCHES * BATCH_SIZE, "fork_points": (20 * BATCH_SIZE,), "evaluations": 3}
    expected = finish(job(world, fresh(), T_LS, **settings))
    trial = job(world, fresh(), T_LS, **settings, interval=0.0)
    draw, inside, last = random.Random(0), 0, 0
    for number in range(KILLS):
        before = furthest(trial)
        (work,) = begin(trial)
        work.wait(lambda work=work: work.start.value >= 0)
        assert work.start.value >= before
        assert work.start.value >= last - BATCH_SIZE  # at most the batch without a whole checkpoint
        if number % 2:
            work.wait(lambda work=work: work.seen.value >= work.start.value + 2 * BATCH_SIZE)
            work.wait(lambda work=work: writing(work, trial))
        else:
            time.sleep(draw.uniform(0, 0.2))
        work.kill()
        last = work.seen.value
        assert last < BATCHES * BATCH_SIZE, "it had ended before it was killed"
        inside += any(f"-{work.process.pid}-" in name for name in hidden(trial.cache) if name.startswith("."))
    assert inside > 0
    (work,) = begin(trial)
    found = work.result()
    assert work.start.value >= last - BATCH_SIZE
    assert (found["weights_hash"], found["history"]) == (expected.weights_hash, expected.history)
    assert found["scores"] == expected.scores.tobytes()
    assert found["damaged"] == []
    assert found["instances_trained"] + found["instances_resumed"] == BATCHES * BATCH_SIZE
    assert hidden(trial.cache) == set()
    assert not (trial.cache / "stages" / "resume" / trial.specification.id).exists()
