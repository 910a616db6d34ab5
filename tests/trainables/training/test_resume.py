"""Nothing is trained twice: runs share what they have in common, wait for each other, and take up what was kept."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trainables.deaths import same
from tests.trainables.processes import begin
from tests.trainables.small import (
    BASELINE,
    BATCH_SIZE,
    BATCHES,
    FORK_POINTS,
    FROZEN,
    LS,
    T_LS,
    T_WSLS,
    Fresh,
    World,
    finish,
    job,
)
from tests.trainables.storages import empty, flipped, missing, truncated
from trainables.losses import LOSSES
from trainables.rankers.ranker_run import RankerRun
from trainables.specs.checkpoint_chain import checkpoint_key, plan_checkpoints
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.utils.system import get_machine_id

TOTAL = BATCHES * BATCH_SIZE
LONG = 60 * BATCH_SIZE
OTHER_LOSSES = [LS.model_copy(update={"loss": loss}) for loss in LOSSES if loss != LS.loss]


@pytest.mark.parametrize(
    "variant",
    [LS, T_WSLS, OTHER_LOSSES[0], *(pytest.param(own, marks=pytest.mark.long) for own in OTHER_LOSSES[1:])],
    ids=lambda it: f"{it.loss} {it.distribution}",
)
def test_an_interrupted_run_loses_at_most_the_interval(world: World, fresh: Fresh, variant: object) -> None:
    whole = finish(job(world, fresh(), variant))
    trial = job(world, fresh(), variant, fork_points=(), interval=0.0)
    tries, start = 0, 0
    while True:
        run = RankerRun(trial)
        assert run.trainer.instances_seen == start
        end = _steps(run, 1)
        run.close()
        if end is not None:
            break
        start, tries = run.trainer.instances_seen, tries + 1
    assert same(end, whole)
    assert tries > 1
    assert (end.instances_resumed, end.instances_reused) == (TOTAL, 0)
    assert not (trial.cache / "stages" / "resume" / trial.specification.id).exists()


def _steps(run: RankerRun, count: int) -> TrialResult | None:
    for _ in range(count):
        outcome = run.advance()
        if outcome is not None:
            return outcome
    return None


def test_a_run_removes_what_writers_that_died_left(world: World, fresh: Fresh) -> None:
    trial = job(world, fresh(), LS)
    run = trial.specification.id
    dead = f"{get_machine_id()}-{2**22 + 1}-01234567"  # Linux gives no process such a number
    names = (f".key.{dead}", f"resume/.{run}.{dead}", f"resume/{run}/.8.{dead}")
    left = [trial.cache / "stages" / name for name in names]
    for folder in left:
        (folder / "half").mkdir(parents=True)
    finish(trial)
    assert not any(folder.exists() for folder in left)


def test_a_run_without_interruption_within_the_interval_keeps_no_slot(world: World, fresh: Fresh) -> None:
    trial = job(world, fresh(), LS)
    finish(trial)
    names = {path.name for path in (trial.cache / "stages").iterdir()}
    assert names == {checkpoint_key(trial.specification, stop) for stop in (*FORK_POINTS, TOTAL)}


DAMAGED = [("state.safetensors", damage) for damage in (truncated, flipped, empty, missing)]
DAMAGED += [("stage.json", flipped), ("stage.json", missing)]


@pytest.mark.parametrize("place", ["resume/*/*", "*"], ids=["slot", "stages"])
def test_what_is_damaged_is_told_and_trained_again(world: World, fresh: Fresh, place: str) -> None:
    """The other kinds of damage are in test_checkpoints.py."""
    whole = finish(job(world, fresh(), T_LS, FROZEN))
    trial = job(world, fresh(), T_LS, FROZEN, fork_points=FORK_POINTS if place == "*" else (), evaluations=4)
    trial = trial.model_copy(update={"checkpoint_interval": 0.0 if place != "*" else 60.0})
    run = RankerRun(trial)
    _steps(run, 3)
    run.close()
    for name, damage in DAMAGED:
        again = trial.model_copy(update={"cache": fresh()})
        shutil.copytree(trial.cache / "stages", again.cache / "stages")
        files = list((again.cache / "stages").glob(f"{place}/{name}"))
        assert files
        for file in files:
            changed = damage(file.read_bytes())
            file.unlink() if changed is None else file.write_bytes(changed)
        outcome = finish(again)
        assert outcome.weights_hash == whole.weights_hash
        assert outcome.instances_trained == TOTAL
        assert len(outcome.damaged) == len(files)
        assert all("damaged" in line and "\n" not in line for line in outcome.damaged)
    assert finish(again).damaged == []


def test_several_processes_that_want_one_run_train_it_once(world: World, fresh: Fresh) -> None:
    trial = job(world, fresh(), LS)
    expected = finish(job(world, fresh(), LS))
    found = [work.result() for work in begin(trial, trial, trial)]
    assert sum(item["instances_trained"] for item in found) == TOTAL
    assert {item["weights_hash"] for item in found} == {expected.weights_hash}
    assert all(item["history"] == expected.history for item in found)
    assert all(item["scores"] == expected.scores.tobytes() for item in found)


def test_runs_that_share_a_beginning_train_it_once_at_the_same_time(world: World, fresh: Fresh) -> None:
    shared = fresh()
    jobs = [job(world, shared, variant) for variant in (LS, T_LS, BASELINE)]
    expected = [finish(job(world, fresh(), variant)).weights_hash for variant in (LS, T_LS, BASELINE)]
    found = [work.result() for work in begin(*jobs)]
    assert [item["weights_hash"] for item in found] == expected
    assert sum(item["instances_trained"] for item in found) == 3 * TOTAL - 2 * BATCH_SIZE
    assert sum(item["instances_reused"] for item in found) == 2 * BATCH_SIZE
    left = {path.name for path in (shared / "stages").rglob("*") if path.name.startswith(".") or "claim" in path.name}
    assert left == set()


def test_a_run_that_is_overtaken_goes_on_from_there(world: World, fresh: Fresh) -> None:
    """Its scores are those of the state it has taken over, not of its own last evaluation."""
    trial = job(world, fresh(), LS)
    slow = RankerRun(trial)
    _steps(slow, 2)
    assert slow.trainer.instances_seen == TOTAL // 2
    fast = finish(trial)
    overtaken = finish(slow)
    assert same(overtaken, fast)
    assert overtaken.scores.tobytes() == fast.scores.tobytes()
    assert (overtaken.instances_trained, fast.instances_trained) == (TOTAL // 2, TOTAL // 2)


def test_a_killed_claimant_is_replaced_and_what_it_kept_is_not_trained_again(world: World, fresh: Fresh) -> None:
    expected = finish(job(world, fresh(), LS, instances=LONG))
    trial = job(world, fresh(), LS, instances=LONG, interval=0.0)
    (first,) = begin(trial)
    first.wait(lambda: first.seen.value > 10 * BATCH_SIZE)
    (second,) = begin(trial)
    second.wait(lambda: second.start.value >= 0)
    time.sleep(0.2)
    assert first.process.is_alive()
    first.kill()
    seen = first.seen.value
    found = second.result()
    assert seen < LONG
    assert found["weights_hash"] == expected.weights_hash
    assert found["history"] == expected.history
    assert found["instances_trained"] + found["instances_resumed"] == LONG


@pytest.mark.parametrize("alive", [False, True])
def test_the_claim_of_a_process_that_was_killed_after_its_work_does_not_stay(
    world: World, fresh: Fresh, alive: bool
) -> None:
    """Nobody waits for it any more, so nobody would take it over."""
    trial = job(world, fresh(), LS)
    first = finish(trial)
    claim = trial.cache / "stages" / f"{checkpoint_key(trial.specification, TOTAL)}.claim"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as holder:
        claim.write_text(f"{get_machine_id()} {holder.pid} {'0' * 32}")
        if alive:
            assert same(finish(trial), first)
    assert claim.exists()
    if not alive:
        assert same(finish(trial), first)
        assert not claim.exists()


def test_what_other_studies_trained_is_shared_and_what_one_trained_before_a_kill_is_not(
    world: World, fresh: Fresh
) -> None:
    trial = job(world, fresh(), LS).model_copy(update={"study": "one"})
    run = RankerRun(trial)
    _steps(run, 1)
    run.close()
    again = finish(trial)
    assert (again.instances_trained, again.instances_resumed, again.instances_reused) == (TOTAL - 8, 8, 0)
    other = finish(trial.model_copy(update={"study": "two"}))
    assert (other.instances_trained, other.instances_resumed, other.instances_reused) == (0, 0, TOTAL)
    fork = finish(_as(trial, T_LS))
    assert (fork.instances_trained, fork.instances_resumed, fork.instances_reused) == (TOTAL - 16, 0, 16)


def _as(trial: TrialSpec, variant: object) -> TrialSpec:
    return trial.model_copy(update={"specification": trial.specification.model_copy(update={"variant": variant})})


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_states_may_lie_on_any_file_system(world: World, fresh: Fresh, tmp_path: Path, kind: str) -> None:
    place = f"{kind}://{tmp_path}/stages"
    whole = finish(job(world, fresh(), T_LS))
    for variant in (LS, T_LS):
        outcome = finish(job(world, fresh(), variant, interval=0.0).model_copy(update={"checkpoints": place}))
    assert same(outcome, whole)
    assert (outcome.instances_trained, outcome.instances_reused) == (TOTAL - 16, 16)


def test_while_it_waits_for_another_run_it_says_so(world: World, fresh: Fresh) -> None:
    trial = job(world, fresh(), LS)
    stages = trial.cache / "stages"
    stages.mkdir(exist_ok=True)
    first, *_ = plan_checkpoints(trial.specification, trial.fork_points)
    claim = stages / f"{checkpoint_key(trial.specification, first)}.claim"
    claim.write_text("00000000 1 of-another-machine")
    calls = 0

    def waited() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            claim.unlink()

    outcome = finish(RankerRun(trial, waited))
    assert calls == 3
    assert outcome.instances_trained == TOTAL
