"""A worker that has done a run holds nothing of it, without waiting for the garbage collector. A run that refers to
itself keeps its model in memory and its files open until that comes, after hundreds of runs."""

import gc
import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainables import encoders as encoder_world
from tests.trainables.encoders import Encoders
from tests.trainables.small import FROZEN, LS, Fresh, World, job
from trainables.specs.trial import TrialSpec
from trainables.worker.actor import RunTrainable


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


def left(trial: TrialSpec) -> tuple[list[str], int]:
    """Does a job; what is left of it, and files that are open afterwards."""
    worker = RunTrainable(config={"trial": trial.model_dump_json()})
    while (result := worker.step()) and "instances" not in result:
        pass
    run = worker._run
    parts = {"run": run, "trainer": run.trainer, "model": run.trainer.model, "data": run.data}
    held = {name: weakref.ref(part) for name, part in parts.items()}
    del run, parts
    while not worker.step()["done"]:
        pass
    return [name for name, found in held.items() if found() is not None], open_files()


@pytest.mark.parametrize("model", [FROZEN, {}], ids=["features", "tokens"])
def test_of_a_ranker_nothing_is_left(world: World, fresh: Fresh, no_collector: None, model: dict[str, object]) -> None:
    left(job(world, fresh(), LS, model))  # what is opened once
    before = open_files()
    assert left(job(world, fresh(), LS, model)) == ([], before)


def test_of_a_sentence_encoder_nothing_is_left(encoders: Encoders, tmp_path: Path, no_collector: None) -> None:
    trial = encoder_world.job(encoders, encoders.fresh(), model=encoder_world.FROZEN)
    left(trial)
    before = open_files()
    again = encoder_world.job(encoders, encoders.fresh(), model=encoder_world.FROZEN)
    assert left(again) == ([], before)
