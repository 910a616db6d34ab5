"""Cores are never shared between trials."""

import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.config.loader import load_study
from study.execution.slots import (
    check_cores,
    compute_capacity,
    connect_or_check,
    get_local_concurrency,
    spread_over_gpus,
)
from study.workflows.dry_run import build_preview
from trainables.utils.errors import UserError


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], 4),
        (["training.threads=2"], 2),
        (["training.threads=3"], 1),
        (["training.threads=4"], 1),
        (["resources.concurrent=3"], 3),
    ],
)
def test_as_many_trials_as_the_cores_hold(settings, expected):
    assert get_local_concurrency(load_study("quick", settings)) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["resources.gpu=1"], 2),
        (["resources.gpu=0.5"], 4),
        (["resources.gpu=0.4"], 4),  # a fifth trial would span both
        (["resources.gpu=0.7"], 2),
        (["resources.gpu=0.1"], 4),
        (["resources.gpu=0.5", "training.threads=2"], 2),
        (["resources.gpu=1", "resources.concurrent=3"], 2),
    ],
)
def test_as_many_trials_as_the_two_gpus_hold_that_torch_sees(settings, expected, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert get_local_concurrency(load_study("quick", settings)) == expected


def has_room(gpus: list[int], share: float, trials: int) -> bool:
    """Return whether so many trials of a share fit, where Ray fills one GPU before the next."""
    left = [[10_000] * count for count in gpus]
    for _ in range(trials):
        gpus_with_room = [(free, gpu, own) for own in left for gpu, free in enumerate(own) if free >= share * 10_000]
        if not gpus_with_room:
            return False
        _, gpu, own = min(gpus_with_room)
        own[gpu] -= round(share * 10_000)
    return True


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 1.0]), st.data())
def test_fewer_trials_than_places_spread_over_the_gpus(gpus, share, data):
    """No GPU has two trials more than another one of the best spread, and all trials still fit."""
    nodes = [{"Resources": {"CPU": 99.0, "GPU": float(count)}} for count in gpus]
    places = compute_capacity({"CPU": 1.0, "GPU": share}, nodes)
    wanted = data.draw(st.integers(1, places))
    spread = spread_over_gpus({"CPU": 1.0, "GPU": share}, nodes, wanted)
    assert spread["GPU"] >= min(share, math.floor(1e4 / int(1 / share + 1e-6)) / 1e4)
    assert has_room(gpus, spread["GPU"], wanted)
    largest = -(-wanted // sum(gpus))  # trials on the fullest GPU, at best
    assert int(1 / spread["GPU"] + 1e-6) == max(largest, 1)


def test_trials_on_processors_have_nothing_to_spread():
    assert spread_over_gpus({"CPU": 2.0}, [{"Resources": {"CPU": 8.0}}], 1) == {"CPU": 2.0}


@pytest.mark.parametrize("settings", [["resources.concurrent=5"], ["resources.concurrent=3", "training.threads=2"]])
def test_more_are_an_error_in_one_line(settings):
    with pytest.raises(UserError, match=r"resources\.concurrent: \d; expected at most \d, what the 4 cores"):
        check_cores(load_study("quick", settings))


def test_more_threads_than_cores_are_an_error_unless_a_cluster_has_them(tmp_path):
    with pytest.raises(UserError, match=r"training\.threads: 5; expected at most 4, the cores of this machine; or res"):
        check_cores(load_study("quick", ["training.threads=5"]))
    folders = [f"output.folder={tmp_path}", f"cache.folder={tmp_path}"]
    with pytest.raises(UserError, match=r"training\.threads: 5"):
        build_preview(load_study("quick", ["training.threads=5", *folders]))
    assert build_preview(load_study("quick", ["training.threads=5", "resources.address=head:6379", *folders]))["runs"]


def test_a_variable_that_tune_refuses_is_named_before_any_work(tmp_path, monkeypatch):
    study = load_study("quick", [f"output.folder={tmp_path}", f"cache.folder={tmp_path}"])
    assert connect_or_check(study) is None
    monkeypatch.setenv("TUNE_RESULT_DIR", "/x")
    for start in (connect_or_check, build_preview):
        with pytest.raises(UserError, match=r"TUNE_RESULT_DIR: '/x'; expected none, .* unset TUNE_RESULT_DIR"):
            start(study)
    assert not list(tmp_path.iterdir())


def test_a_preview_names_a_gpu_that_is_missing(tmp_path, monkeypatch):
    folders = [f"output.folder={tmp_path}", f"cache.folder={tmp_path}"]
    monkeypatch.setattr("study.workflows.dry_run.count_gpus", lambda: 0)
    monkeypatch.setattr("study.workflows.dry_run.ROCM_DEVICE", tmp_path / "none")
    preview = build_preview(load_study("quick", ["resources.gpu=0.5", *folders]))
    assert "\na start here would fail: resources.gpu: 0.5, but this machine shows no NVIDIA GPU" in str(preview)
    assert not build_preview(load_study("quick", folders))["problems"]
    monkeypatch.setattr("study.workflows.dry_run.count_gpus", lambda: 1)
    assert not build_preview(load_study("quick", ["resources.gpu=0.5", *folders]))["problems"]
    on_cluster = ["resources.gpu=0.5", "resources.address=head:6379", *folders]
    monkeypatch.setattr("study.workflows.dry_run.count_gpus", lambda: 0)
    assert not build_preview(load_study("quick", on_cluster))["problems"]
    monkeypatch.setattr("study.workflows.dry_run.ROCM_DEVICE", tmp_path)
    assert not build_preview(load_study("quick", ["resources.gpu=0.5", *folders]))["problems"]
