"""A checkpoint is loaded bit for bit as it was saved, or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.trainables.storages import DAMAGES, KINDS, content, missing, place, write
from trainables.specs.checkpoint_chain import BestEvaluation, Checkpoint, TrainedBy
from trainables.storage import open_storage
from trainables.storage.base import MANIFEST
from trainables.training.checkpoints import CheckpointStore


def stage() -> Checkpoint:
    """Every value that a bit-exact store must keep: negative zero, subnormal, extremes, a scalar, an odd loss."""
    values = torch.tensor([0.0, -0.0, 1e-45, torch.finfo(torch.float32).max, 0.1])
    tensors = {"weights/a": values, "step/a": torch.tensor(3.0), "weights/half": torch.randn(5, 2).bfloat16()}
    history = [{"instances": 8, "train/loss": 0.1 + 0.2}, {"instances": 8, "dev/R5@1": 1 / 3}]
    tensors["best/a"] = values * 2
    return Checkpoint(8, tensors, history, (TrainedBy(4, "one"), TrainedBy(8, "two")), BestEvaluation(4, 1 / 3))


def bits(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {name: bytes(value.contiguous().reshape(-1).view(torch.uint8).tolist()) for name, value in tensors.items()}


class TestOnEveryStorage:
    @pytest.fixture(params=KINDS)
    def at(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        return place(request.param, tmp_path)

    def test_what_was_saved_is_loaded_bit_for_bit(self, at: str) -> None:
        kept, saved = CheckpointStore(open_storage(at)), stage()
        assert kept.load("key") is None
        kept.save("key", saved)
        loaded = kept.load("key")
        assert bits(loaded.tensors) == bits(saved.tensors)
        assert {name: value.dtype for name, value in loaded.tensors.items()} == {
            name: value.dtype for name, value in saved.tensors.items()
        }
        assert loaded._replace(tensors={}) == saved._replace(tensors={})
        assert kept.damage_messages == []

    def test_a_second_save_changes_nothing(self, at: str) -> None:
        kept, saved = CheckpointStore(open_storage(at)), stage()
        kept.save("key", saved)
        before = set(kept.storage.list_files())
        kept.save("key", saved)
        assert set(kept.storage.list_files()) == before

    @pytest.mark.parametrize("damage", DAMAGES)
    @pytest.mark.parametrize("name", ["state.safetensors", MANIFEST])
    def test_a_damaged_state_is_noticed_told_and_removed(
        self, at: str, name: str, damage: Callable[[bytes], bytes | None]
    ) -> None:
        kept = CheckpointStore(open_storage(at))
        kept.save("key", stage())
        write(at, f"key/{name}", damage(content(at, f"key/{name}")))
        assert kept.load("key") is None
        if not (
            at.startswith("memory") and (name, damage) == (MANIFEST, missing)
        ):  # a writer that was killed, no damage
            (line,) = kept.damage_messages
            assert "\n" not in line
            assert "checkpoint key was damaged" in line
            assert list(kept.storage.list_files()) == []
        kept.save("key", stage())
        assert kept.load("key") is not None


@pytest.mark.parametrize("dies_at", [1, 2])
def test_where_the_disk_is_full_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """Looks for the key before every step of a save that follows the tensors; the disk is full at one of them."""
    kept, steps = CheckpointStore(open_storage(str(tmp_path))), []

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
    with pytest.raises(OSError, match="no space"):
        kept.save("key", stage())
    assert list(tmp_path.iterdir()) == []


def mapped(path: Path) -> dict[str, torch.Tensor]:
    """Maps a file as safetensors does after it has read the header."""
    return {"a": torch.tensor(torch.UntypedStorage.from_file(str(path), shared=False, nbytes=8))}


@pytest.mark.parametrize("read", [load_file, mapped], ids=["open", "map"])
def test_a_state_that_another_process_removes_while_it_is_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], dict[str, torch.Tensor]]
) -> None:
    """Between its checksum and its tensors."""
    kept = CheckpointStore(open_storage(str(tmp_path)))
    kept.save("key", stage())

    def late(path: Path) -> dict[str, torch.Tensor]:
        kept.storage.remove("key")
        return read(path)

    monkeypatch.setattr("safetensors.torch.load_file", late)
    assert kept.load("key") is None
    assert kept.damage_messages == []
