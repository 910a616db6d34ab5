"""Tune's settings beyond the defaults, and the files that it keeps."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from ray.tune.utils.object_cache import _ObjectCache

from study.execution.tuner import _KeepActorsAliveScheduler, start_ray
from tests.study.command import SECRETS, called, find_secrets
from tests.study.driving import STUDY
from trainables.utils.errors import MachineError


def kept(scheduler: _KeepActorsAliveScheduler | None, ended: int) -> int:
    """Processes that Tune's own cache keeps when so many trials have ended and none is waiting."""
    controller = SimpleNamespace(_actor_cache=_ObjectCache(), _trials=[])
    trial = SimpleNamespace(placement_group_factory="a core")
    for number in range(ended):
        if scheduler:
            scheduler.on_trial_add(controller, trial)
        controller._actor_cache.cache_object("a core", number)
    list(controller._actor_cache.flush_cached_objects())
    return int(controller._actor_cache.num_cached_objects)


def test_a_place_that_is_idle_keeps_its_process():
    assert kept(None, 5) == 1
    assert kept(_KeepActorsAliveScheduler(3), 2) == 2
    assert kept(_KeepActorsAliveScheduler(3), 3) == kept(_KeepActorsAliveScheduler(3), 5) == 3


@pytest.mark.parametrize(
    ("message", "expected"),
    [("The current node timed out during startup. This could happen ...", MachineError), ("no such thing", ValueError)],
)
def test_a_start_of_ray_that_takes_too_long_is_a_fault_of_the_machine(monkeypatch, message, expected):
    def refuse(**settings: object) -> None:
        raise ValueError(message)

    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)  # or it would set one for good
    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(expected):
        start_ray(STUDY, None, Path())


@pytest.mark.long  # it starts Ray
def test_tune_hands_over_a_record_and_scores_and_keeps_neither_nor_a_credential(tmp_path):
    """Neither in memory nor in its files, which it writes here after each result; and Ray's are private."""
    results, session = tmp_path / "results", tmp_path / "session"
    code = f"""
import os, shutil
from ray import tune
from study.config.loader import load_study
from study.execution.searcher import TrialCallback
from study.execution.tuner import open_session, start_ray

class Ended(tune.Trainable):
    def step(self):
        assert {{*{SECRETS!r}.items()}} <= {{*os.environ.items()}}
        return {{"metric": 1.0, "record": '{{"state": "finished"}}', "scores": bytes(10**6), "done": True}}

given = []
class Searcher:
    def handle_result(self, trial_id, record, scores):
        given.append((record, len(scores)))

os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "0"
settings = tune.RunConfig(
    storage_path={str(results)!r},
    name="trials",
    verbose=0,
    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
    callbacks=[TrialCallback(Searcher())],
)
with open_session() as folder:
    start_ray(load_study("quick", ["resources.concurrent=1"]), None, folder)
    (result,) = tune.Tuner(Ended, run_config=settings).fit()
    shutil.copytree(folder, {str(session)!r}, ignore=shutil.ignore_patterns("sockets"))
print(oct(os.stat({str(session)!r}).st_mode), folder.exists())
print(given, sorted({{"metric", "record", "scores"}} & result.metrics.keys()))
"""
    done = called(Path.cwd(), "-c", code, **SECRETS)
    said = ["0o40700 False", """[('{"state": "finished"}', 1000000)] ['metric']"""]
    assert done.stdout.splitlines()[-2:] == said, done.stderr
    assert list(session.rglob("raylet.out"))
    assert find_secrets(results, session) == []
    sizes = {path.name: path.stat().st_size for path in results.rglob("*") if path.is_file()}
    assert any(name.startswith("experiment_state") for name in sizes)
    assert max(sizes.values()) < 10**5
