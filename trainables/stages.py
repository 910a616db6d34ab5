"""Training as a chain of stages that are remembered.

A stage is (parent, settings in force, instances from..to), its key the hash of those. Runs whose first instances are
trained under equal settings share keys, so the later run starts from the earlier one's checkpoint: a two-stage schedule
forks from the constant one at its switch point.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables.files import whole_folder
from trainables.smoothing import switch_instances
from trainables.specification import RunSpecification, VariantSettings, digest


class Segment(NamedTuple):
    """Instances start..stop, trained under one smoothing."""

    start: int
    stop: int
    smoothing: VariantSettings


def segments(variant: VariantSettings, total: int, batch_size: int) -> list[Segment]:
    """The stretches of training over which the settings in force do not change."""
    variant = variant.normalised()
    if variant.schedule == "constant":
        return [Segment(0, total, variant)]
    assert variant.switch is not None
    cut = min(switch_instances(variant.switch, total, batch_size), total)
    smoothed = VariantSettings(distribution=variant.distribution, epsilon=variant.epsilon)
    parts = [Segment(0, cut, smoothed), Segment(cut, total, VariantSettings())]
    return [part for part in parts if part.start < part.stop]


def stage_key(specification: RunSpecification, instances: int) -> str:
    """Key of the state after `instances`: the hash chained over the segments up to there."""
    training = specification.training
    assert training is not None
    root = specification.model_dump(mode="json", exclude={"variant"})
    key = digest({"root": root})
    for part in segments(specification.variant, training.instances, training.batch_size):
        if part.start < instances:
            stop = min(part.stop, instances)
            key = digest({"parent": key, "smoothing": part.smoothing.model_dump(mode="json"), "to": stop})
    return key


class Stage(NamedTuple):
    """A remembered state."""

    instances: int
    tensors: dict[str, Tensor]
    history: list[dict[str, float]]


class StageCache:
    """Checkpoints by stage key in one folder: safetensors, a small JSON beside, a checksum over both.

    Args:
        folder: shared by all studies; every entry is written whole, and a second writer of the same key is harmless
            since both write the same bits.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, key: str, stage: Stage) -> None:
        """Remembers a state."""
        if (self.folder / key).is_dir():
            return
        with whole_folder(self.folder / key) as temporary:
            save_file(stage.tensors, temporary / "state.safetensors")
            text = json.dumps({"instances": stage.instances, "history": stage.history})
            (temporary / "stage.json").write_text(text, encoding="utf-8")
            (temporary / "sha256").write_text(_checksum(temporary), encoding="utf-8")

    def load(self, key: str) -> Stage | None:
        """The state, or None where there is none or what is there is damaged: it is then trained again."""
        path = self.folder / key
        if not path.is_dir():
            return None
        try:
            if (path / "sha256").read_text(encoding="utf-8") == _checksum(path):
                about: dict[str, Any] = json.loads((path / "stage.json").read_text(encoding="utf-8"))
                return Stage(about["instances"], load_file(path / "state.safetensors"), about["history"])
        except (FileNotFoundError, SafetensorError, ValueError):
            logging.getLogger(__name__).warning("state %s is damaged", key)
        shutil.rmtree(path, ignore_errors=True)
        return None

    def longest(self, specification: RunSpecification, cuts: Iterable[int]) -> tuple[str, Stage] | None:
        """The remembered state of this run that is furthest along, among those after `cuts` instances."""
        for instances in sorted(cuts, reverse=True):
            key = stage_key(specification, instances)
            stage = self.load(key)
            if stage is not None:
                return key, stage
        return None


def _checksum(path: Path) -> str:
    total = hashlib.sha256()
    for name in ("state.safetensors", "stage.json"):
        with (path / name).open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()
