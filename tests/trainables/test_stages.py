"""A stage's key is equal exactly where the training up to it is, and what the cache returns is what was put in."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.small import BASELINE, BATCH_SIZE, LS, T_LS, TRAINING, WSLS, specification
from trainables.specification import Environment, RunSpecification, VariantSettings
from trainables.stages import Stage, StageCache, segments, stage_key

distributions = st.sampled_from(["uniform", "weak_supervision"])
epsilons = st.floats(0.01, 1)
seen = st.lists(st.integers(1, 40).map(lambda batches: batches * BATCH_SIZE), min_size=1, max_size=6)
TOTAL = 40 * BATCH_SIZE


def made(variant: VariantSettings, **training: object) -> RunSpecification:
    """The variant as the user wrote it, not normalised."""
    return specification(instances=TOTAL, **training).model_copy(update={"variant": variant})


def two_stage(distribution: str, epsilon: float, switch: float | None) -> VariantSettings:
    return VariantSettings.model_validate(
        {"distribution": distribution, "schedule": "two_stage", "epsilon": epsilon, "switch": switch}
    )


def constant(distribution: str, epsilon: float) -> VariantSettings:
    return VariantSettings.model_validate({"distribution": distribution, "epsilon": epsilon})


def keys(run: RunSpecification, instances: list[int]) -> list[str]:
    return [stage_key(run, number) for number in instances]


@given(distributions, epsilons, st.floats(0, 2), seen)
def test_two_stage_shares_its_first_stage_with_constant_and_nothing_after(
    distribution: str, epsilon: float, switch: float, instances: list[int]
) -> None:
    whole, forked = made(constant(distribution, epsilon)), made(two_stage(distribution, epsilon, switch))
    parts = segments(forked.variant, TOTAL, BATCH_SIZE)
    cut = sum(part.stop - part.start for part in parts if part.smoothing.epsilon > 0)
    for number in instances:
        assert (stage_key(whole, number) == stage_key(forked, number)) == (number <= cut)


@given(distributions, epsilons, st.none() | st.floats(0, 2))
def test_segments_cover_training_once_in_whole_batches(distribution: str, epsilon: float, switch: float | None) -> None:
    parts = segments(two_stage(distribution, epsilon, switch), TOTAL, BATCH_SIZE)
    ends = [0, *(part.stop for part in parts)]
    assert [part.start for part in parts] == ends[:-1]
    assert ends[-1] == TOTAL
    assert all(part.start < part.stop and part.stop % BATCH_SIZE == 0 for part in parts)
    smoothed = parts[0].stop if parts[0].smoothing.epsilon else 0
    share = 1 if switch is None else min(switch, 1)
    assert share * TOTAL - 1e-6 <= smoothed < share * TOTAL + BATCH_SIZE


@given(distributions, epsilons, st.floats(0, 2), seen)
def test_without_strength_or_before_a_switch_at_0_every_name_is_the_baseline(
    distribution: str, epsilon: float, switch: float, instances: list[int]
) -> None:
    expected = keys(made(BASELINE), instances)
    assert keys(made(constant(distribution, 0)), instances) == expected
    assert keys(made(two_stage(distribution, 0, switch)), instances) == expected
    assert keys(made(two_stage(distribution, epsilon, 0)), instances) == expected


@given(distributions, epsilons, st.floats(1, 9), seen)
def test_a_switch_at_the_end_or_later_is_the_constant_schedule(
    distribution: str, epsilon: float, switch: float, instances: list[int]
) -> None:
    expected = keys(made(constant(distribution, epsilon)), instances)
    assert keys(made(two_stage(distribution, epsilon, switch)), instances) == expected
    assert keys(made(two_stage(distribution, epsilon, None)), instances) == expected


def test_two_switch_points_in_one_batch_are_one_training() -> None:
    """0.51 and 0.52 of 4 batches both switch after the third."""
    after = 4 * BATCH_SIZE
    first, second = (specification(two_stage("uniform", 0.2, switch)) for switch in (0.51, 0.52))
    assert stage_key(first, after) == stage_key(second, after)


ENVIRONMENT = Environment(device="cpu", instruction_set="a", torch="1", transformers="1", numpy="1")
CHANGES = {
    "seed": {"seed": 2},
    "data": {"data": "other"},
    "model": {"model": {"name": "sha256:1", "max_length": 32}},
    "layers": {"model": {"name": "sha256:0", "max_length": 32, "layers": 2}},
    "pooling": {"model": {"name": "sha256:0", "max_length": 32, "pooling": "mean"}},
    "threads": {"training": {**TRAINING, "threads": 2}},
    "precision": {"training": {**TRAINING, "precision": "bf16"}},
    "dropout": {"training": {**TRAINING, "dropout": 0.2}},
    "total, on which the learning rate depends": {"training": {**TRAINING, "instances": 2 * BATCH_SIZE}},
    "task": {"task": {"libraries": ["numpy"]}},
    "strength": {"variant": {"distribution": "uniform", "epsilon": 0.3}},
    "distribution": {"variant": {"distribution": "weak_supervision", "epsilon": 0.2}},
    **{
        name: {"environment": {**ENVIRONMENT.model_dump(), name: "2"}}
        for name in ("device", "instruction_set", "torch", "transformers")
    },
}


def test_whatever_changes_the_bits_changes_the_key() -> None:
    base = specification(LS).model_copy(update={"environment": ENVIRONMENT}).model_dump(mode="json")
    runs = [RunSpecification.model_validate(base)]
    runs += [RunSpecification.model_validate({**base, **change}) for change in CHANGES.values()]
    assert len({stage_key(run, BATCH_SIZE) for run in runs}) == len(runs)
    assert len({run.id for run in runs}) == len(runs)


def stage() -> Stage:
    """Every value that a bit-exact store must keep: negative zero, subnormal, extremes, a scalar, an odd loss."""
    values = torch.tensor([0.0, -0.0, 1e-45, torch.finfo(torch.float32).max, 0.1])
    tensors = {"weights/a": values, "step/a": torch.tensor(3.0), "weights/half": torch.randn(5, 2).bfloat16()}
    return Stage(8, tensors, [{"instances": 8, "train/loss": 0.1 + 0.2}, {"instances": 8, "dev/R5@1": 1 / 3}])


def bits(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {name: bytes(value.contiguous().reshape(-1).view(torch.uint8).tolist()) for name, value in tensors.items()}


def test_what_was_saved_is_loaded_bit_for_bit(tmp_path: Path) -> None:
    cache, saved = StageCache(tmp_path / "stages"), stage()
    assert cache.load("key") is None
    cache.save("key", saved)
    loaded = cache.load("key")
    assert loaded is not None
    assert bits(loaded.tensors) == bits(saved.tensors)
    assert {name: value.dtype for name, value in loaded.tensors.items()} == {
        name: value.dtype for name, value in saved.tensors.items()
    }
    assert (loaded.instances, loaded.history) == (saved.instances, saved.history)
    assert [path.name for path in (tmp_path / "stages").iterdir()] == ["key"]


def test_a_second_writer_changes_nothing(tmp_path: Path) -> None:
    cache, saved = StageCache(tmp_path), stage()
    cache.save("key", saved)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    cache.save("key", saved)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


FILES = ("state.safetensors", "stage.json", "sha256")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path) -> None:
    """One bit, in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def scramble(path: Path) -> None:
    """Bytes that are no text."""
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.mark.parametrize("damage", [truncate, empty, flip, scramble, Path.unlink])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_state_is_noticed_and_removed(tmp_path: Path, name: str, damage: object) -> None:
    cache = StageCache(tmp_path)
    cache.save("key", stage())
    assert callable(damage)
    damage(tmp_path / "key" / name)
    assert cache.load("key") is None
    assert not (tmp_path / "key").exists()
    cache.save("key", stage())
    assert cache.load("key") is not None


def test_the_furthest_state_that_is_whole_is_taken(tmp_path: Path) -> None:
    cache, run = StageCache(tmp_path), specification(LS)
    cuts = [1 * BATCH_SIZE, 2 * BATCH_SIZE, 3 * BATCH_SIZE]
    assert cache.longest(run, cuts) is None
    for cut in cuts:
        cache.save(stage_key(run, cut), stage()._replace(instances=cut))
    truncate(tmp_path / stage_key(run, cuts[2]) / "state.safetensors")
    found = cache.longest(run, cuts)
    assert found is not None
    assert (found[0], found[1].instances) == (stage_key(run, cuts[1]), cuts[1])
    forked = cache.longest(specification(T_LS), cuts)
    assert forked is not None
    assert forked[0] == found[0]
    assert cache.longest(specification(WSLS), cuts) is None


@pytest.mark.parametrize("dies_at", [None, 1, 2, 3])
def test_a_state_being_written_is_not_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int | None
) -> None:
    """Looks for the key before every step of a save; where the disk is full at that step, nothing is left behind."""
    cache, steps = StageCache(tmp_path), []

    def watched(step: Callable[..., Any]) -> Callable[..., Any]:
        def look(*arguments: Any, **settings: Any) -> Any:
            steps.append(step)
            assert not (tmp_path / "key").exists()
            if len(steps) == dies_at:
                raise OSError("no space left on device")
            return step(*arguments, **settings)

        return look

    monkeypatch.setattr(Path, "write_text", watched(Path.write_text))
    monkeypatch.setattr(os, "rename", watched(os.rename))
    if dies_at is None:
        cache.save("key", stage())
        assert len(steps) == 3
        assert cache.load("key") is not None
    else:
        with pytest.raises(OSError, match="no space"):
            cache.save("key", stage())
        assert list(tmp_path.iterdir()) == []
