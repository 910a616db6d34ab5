"""What Tune is told beyond its defaults."""

from types import SimpleNamespace

from ray.tune.utils.object_cache import _ObjectCache

from study.execution.tuner import _KeepActorsAliveScheduler


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


def test_a_place_that_is_idle_keeps_its_process() -> None:
    assert kept(None, 5) == 1
    assert kept(_KeepActorsAliveScheduler(3), 2) == 2
    assert kept(_KeepActorsAliveScheduler(3), 3) == kept(_KeepActorsAliveScheduler(3), 5) == 3
