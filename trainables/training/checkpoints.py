"""Checkpoints on disk: safetensors, and a small JSON file that completes them, with checksums of both.

Torch is loaded when a checkpoint is saved or loaded, not to verify one.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.specs.checkpoint_chain import BestEvaluation, Checkpoint, TrainedBy
from trainables.storage.base import MANIFEST, STATE_FILE, Storage
from trainables.utils.checksums import hash_file
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from torch import Tensor


class CheckpointStore:
    """Saves and loads checkpoints by name in one storage.

    A second writer of the same name is harmless, since both write the same bits.

    Args:
        storage: storage of the checkpoints.

    Attributes:
        damage_messages: one line for each checkpoint that was damaged and therefore removed.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.damage_messages: list[str] = []

    def save(self, name: str, checkpoint: Checkpoint) -> None:
        """Save a checkpoint, unless it exists already."""
        if self.storage.exists(name):
            return
        from safetensors.torch import save_file

        with self.storage.write_folder(name) as folder:
            save_file(checkpoint.tensors, folder / STATE_FILE)
            content = {
                "instances": checkpoint.instances,
                "history": checkpoint.history,
                "origins": checkpoint.origins,
                **({"best": checkpoint.best} if checkpoint.best else {}),
                "state": hash_file(folder / STATE_FILE),
            }
            text = json.dumps({"stage": content, "sha256": hash_json(content)}, separators=(",", ":"))
            (folder / MANIFEST).write_text(text, encoding="utf-8")

    def load(self, name: str) -> Checkpoint | None:
        """Return a checkpoint, or None if it does not exist or is damaged.

        A damaged checkpoint is removed, and a message is recorded; its instances are then trained again.
        """
        if not self.storage.exists(name):
            return None
        from safetensors import SafetensorError

        try:
            with self.storage.read_folder(name) as folder:
                checkpoint = _read_checkpoint(folder)
        except (FileNotFoundError, RuntimeError) as error:  # RuntimeError: the file vanished while it was mapped
            if not self.storage.exists(name):  # another process removed it
                return None
            if isinstance(error, RuntimeError):
                raise
            reason = f"no {Path(error.filename or '').name}"
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            reason = str(error).splitlines()[0]
        else:
            self.storage.mark_used(name)
            return checkpoint
        self.storage.remove(name)
        self.damage_messages.append(f"checkpoint {name} was damaged ({reason}); it was removed and is computed again")
        return None


def verify_checkpoint(folder: Path) -> dict[str, Any]:
    """Return what the manifest of a checkpoint says of it, after its files were checked.

    Args:
        folder: folder with `MANIFEST` and `STATE_FILE`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file does not match its checksum, or the manifest is not JSON.
        KeyError, TypeError: if the manifest is that of something else.
    """
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    content: dict[str, Any] = manifest["stage"]
    for name, expected, actual in (
        (MANIFEST, manifest["sha256"], hash_json(content)),
        (STATE_FILE, content["state"], hash_file(folder / STATE_FILE)),
    ):
        if expected != actual:
            raise ValueError(f"{name} does not match its checksum")
    return content


def _read_checkpoint(folder: Path) -> Checkpoint:
    """Return the checkpoint in a folder; raise ValueError or another error if it is damaged."""
    from safetensors.torch import load_file

    content = verify_checkpoint(folder)
    origins = tuple(TrainedBy(*origin) for origin in content["origins"])
    best = BestEvaluation(*content["best"]) if "best" in content else None
    return Checkpoint(content["instances"], load_file(folder / STATE_FILE), content["history"], origins, best)


def load_weights_into(parameters: "Mapping[str, Tensor]", weights: "Mapping[str, Tensor]") -> None:
    """Copy the weights of a checkpoint into a model.

    Args:
        parameters: trainable parameters of the model, by name.
        weights: a tensor for each of these names, without others.

    Raises:
        ValueError: if the names differ.
    """
    if parameters.keys() != weights.keys():
        raise ValueError("the weights are not those of this model")
    for name, parameter in parameters.items():
        parameter.data.copy_(weights[name])
