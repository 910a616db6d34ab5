"""A study trains no more than its plan says, also after losses and interruptions, and ends with the same weights."""

import random
import shutil
from pathlib import Path

import pytest

from records import run_record as record
from study.plan.shared_training import bound_instances_with_sharing, bound_instances_without_sharing
from study.scheduling.study_scheduler import StudyScheduler
from study.workflows.cleanup import clean_up_study
from tests.study.small import BATCHES, conduct, scheduler, study, table, totals
from tests.trainables.small import BATCH_SIZE, FROZEN, World, finish, job
from trainables.rankers.ranker_run import RankerRun
from trainables.utils.system import get_machine_id

WHOLE_GRID = {
    "seeds": [1],
    "variants": ["BERT", "LS", "T-LS"],
    "search": {
        "round_size": 3,
        "epsilon": [0.2],
        "schedule_settings": {"switch": [part / 6 for part in range(1, 6)]},
        "n_configurations": {"LS": 1, "T-LS": 5, "WSLS": 1, "T-WSLS": 1},
    },
}
SMALL_GRID = {
    "seeds": [1],
    "variants": ["BERT", "LS", "T-LS"],
    "search": {
        "epsilon": [0.2],
        "schedule_settings": {"switch": [1 / 3, 2 / 3]},
        "n_configurations": {"LS": 1, "T-LS": 2, "WSLS": 1, "T-WSLS": 1},
    },
}
SAMPLE = {
    "seeds": [1],
    "search": {
        "round_size": 2,
        "epsilon": [0.2, 0.4],
        "schedule_settings": {"switch": [0.34, 0.5, 0.67]},
        "n_configurations": {"LS": 1, "T-LS": 3, "WSLS": 1, "T-WSLS": 1},
    },
}


def test_a_study_of_its_whole_grid_trains_exactly_what_was_planned(world, fresh, tmp_path):
    """48 of the baseline, 48 with smoothing, and tails of 40, 32, 24, 16 and 8."""
    made = study(world, tmp_path / "study", fresh(), **WHOLE_GRID)
    begun = scheduler(world, made)
    conduct(begun)
    planned = bound_instances_with_sharing(made)
    assert planned == (48 + 48 + 120,) * 2
    assert totals(begun) == (planned.low, bound_instances_without_sharing(made).high)
    for item in begun.configurations:
        for run in item.runs:
            if item.name in ("BERT", "LS", "T-LS"):
                alone = job(world, fresh(), run.variant, FROZEN, seed=run.seed, instances=BATCHES * BATCH_SIZE)
                found = record.read_run_record(begun.folder, run.id)
                assert (
                    found["summary"]["weights"] == finish(alone.model_copy(update={"specification": run})).weights_hash
                )


def test_a_study_of_a_sample_trains_within_the_planned_bounds_in_any_order(world, fresh, tmp_path):
    made = study(world, tmp_path / "study", fresh(), **SAMPLE)
    begun = scheduler(world, made)
    conduct(begun, random.Random(1))
    trained, without = totals(begun)
    assert bound_instances_with_sharing(made).low <= trained <= bound_instances_with_sharing(made).high
    assert without == bound_instances_without_sharing(made).high


def test_with_a_tiny_budget_nothing_else_is_trained_and_the_table_is_the_same(world, fresh, tmp_path):
    rich = scheduler(world, study(world, tmp_path / "rich", fresh(), **SAMPLE))
    assert conduct(rich) == []
    cache = fresh()
    output = {"folder": str(tmp_path / "poor"), "models": None}
    poor = scheduler(world, study(world, tmp_path / "poor", cache, cache={"max_size": "1B"}, output=output, **SAMPLE))
    (line,) = conduct(poor)
    assert "cache.max_size is 1B" in line
    assert table(poor) == table(rich)
    assert totals(poor) == totals(rich)
    assert list((cache / "stages").iterdir()) == []


def test_interrupted_within_a_run_it_counts_what_it_trained_once(world, fresh, tmp_path):
    made = study(world, tmp_path / "study", fresh(), cache={"checkpoint_interval": 0}, **SMALL_GRID)
    for stretches in (1, 2, 3):
        interrupted = scheduler(world, made)
        conduct(interrupted, stop_after=stretches)
        request = interrupted.pop_request()
        if request.trial.specification.system == "cross-encoder":
            run = RankerRun(request.trial)
            run.advance()
            run.close()
    begun = scheduler(world, made)
    conduct(begun)
    assert totals(begun) == (bound_instances_with_sharing(made).low, bound_instances_without_sharing(made).high)
    resumed = [record.read_run_record(begun.folder, run.id) for item in begun.configurations for run in item.runs]
    assert sum(entry["summary"]["instances_resumed"] for entry in resumed if entry) > 0


@pytest.fixture(scope="module")
def finished(world, tmp_path_factory):
    """A finished study."""
    place = tmp_path_factory.mktemp("finished")
    begun = scheduler(world, study(world, place / "study", world.fresh_cache(place / "cache"), **SMALL_GRID))
    conduct(begun)
    return begun


def another(world: World, finished: StudyScheduler, folder: Path, cache: Path) -> StudyScheduler:
    """The same study in another folder, with what the finished one left in its cache."""
    shutil.copytree(finished.study.checkpoints_url, cache / "stages")
    return scheduler(world, study(world, folder, cache, **SMALL_GRID))


def test_a_second_study_shares_everything_and_says_so(world, finished, fresh, tmp_path):
    again = another(world, finished, tmp_path / "again", fresh())
    conduct(again)
    assert totals(again) == (0, bound_instances_without_sharing(again.study).high)
    assert table(again) == table(finished)


def test_what_was_damaged_is_in_the_record(world, finished, fresh, tmp_path):
    again = another(world, finished, tmp_path / "again", fresh())
    files = list(Path(again.study.checkpoints_url).glob("*/state.safetensors"))
    for file in files:
        file.write_bytes(file.read_bytes()[:-1])
    conduct(again)
    entries = [record.read_run_record(again.folder, run.id) for item in again.configurations for run in item.runs]
    lines = [line for entry in entries if entry for line in entry["damaged"]]
    assert sum(entry["summary"]["dev/states_damaged"] for entry in entries if entry) == len(lines) == len(files)
    assert all("damaged" in line for line in lines)
    assert table(again) == table(finished)


def test_a_study_starts_by_removing_what_dead_processes_left(world, fresh, tmp_path):
    made = study(world, tmp_path / "study", tmp_path / "cache")
    dead = f"{get_machine_id()}-{2**22 + 1}-01234567"  # Linux gives no process such a number
    left = [
        made.folder / "runs" / "id" / f".record.json.{dead}",
        made.cache_folder / "stages" / f".key.{dead}" / "state",
    ]
    left.append(made.cache_folder / "crash_reports" / f".id.{dead}")
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    clean_up_study(made)
    assert not any(path.exists() for path in left)
    shutil.rmtree(tmp_path / "cache")
    clean_up_study(made)
