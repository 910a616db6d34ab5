"""Trials avoid a GPU that has raised an error: on a real Ray node with two GPUs that Ray only counts."""

import time
from collections.abc import Iterator

import pytest
import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from study.config.loader import load_study
from study.execution import broken_gpus, nodes, tuner
from study.execution.broken_gpus import BrokenGpus
from study.execution.slots import compute_capacity
from trainables.worker.gpu_errors import GpuFaultError, GpuPlace

SHARE = {"CPU": 1.0, "GPU": 0.5}


@pytest.fixture
def node_id(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Ray as a study starts it where torch sees two GPUs; whether Ray finds any does not matter."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(broken_gpus, "_PATIENCE_S", 3.0)
    for name in ("RAY_ADDRESS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    with tuner.open_session() as folder:
        assert tuner.start_ray(load_study("quick", ["resources.gpu=0.5"]), None, folder) == 4
        (node,) = nodes.find_eligible_nodes(SHARE)
        assert node["Resources"]["GPU"] == 2.0
        yield str(node["NodeID"])


@ray.remote(num_cpus=1, num_gpus=SHARE["GPU"])
def find_gpu() -> str:
    (gpu,) = ray.get_runtime_context().get_accelerator_ids()["GPU"]
    return str(gpu)


def start_trial() -> tuple[PlacementGroup, str]:
    """A place as Tune reserves it, and the GPU that Ray chose."""
    group = placement_group([SHARE])
    ray.get(group.ready(), timeout=60)
    strategy = PlacementGroupSchedulingStrategy(group)
    return group, ray.get(find_gpu.options(scheduling_strategy=strategy).remote(), timeout=60)


def wait_until_held(gpus: BrokenGpus) -> None:
    deadline = time.monotonic() + 60
    while not all(gpu.is_held for gpu in gpus._gpus.values()):
        assert time.monotonic() < deadline
        gpus.on_step_begin(0, [])
        time.sleep(0.1)


@pytest.mark.slow
def test_trials_take_the_other_gpu_also_while_some_still_run_on_the_broken_one(node_id):
    def get_nodes() -> list[nodes.Node]:
        return nodes.find_eligible_nodes(SHARE)

    said, sizes = list[str](), list[int]()
    gpus = BrokenGpus(
        SHARE, said.append, get_nodes, lambda: sizes.append(compute_capacity(SHARE, gpus.exclude(get_nodes())))
    )
    (first, gpu), (second, same) = start_trial(), start_trial()
    assert gpu == same  # Ray fills one GPU before it uses the next
    fault = GpuFaultError(GpuPlace(node_id, gpu), "RuntimeError: CUDA error: unknown error", is_broken=True)
    assert not gpus.avoid(fault)
    assert gpus.avoid(fault)
    assert said == [
        f"GPU {gpu} of node {node_id[:8]}: RuntimeError: CUDA error: unknown error; trials avoid this GPU from now on"
    ]
    assert sizes == [2]
    remove_placement_group(first)
    deadline = time.monotonic() + 20  # the other trial goes on for a while
    while time.monotonic() < deadline and not gpus._gpus[fault.place]._held:
        gpus.on_step_begin(0, [])
        time.sleep(0.1)
    remove_placement_group(second)
    wait_until_held(gpus)
    places = [start_trial()[1] for _ in range(2)]
    assert {gpu, *places} == {"0", "1"}
    assert places[0] == places[1] != gpu

    last = GpuFaultError(GpuPlace(node_id, places[0]), "RuntimeError: CUDA error: unknown error", is_broken=True)
    assert not gpus.avoid(last)
    assert not gpus.avoid(last)  # it is never avoided, so each of its faults counts
    assert (len(said), sizes) == (1, [2])
