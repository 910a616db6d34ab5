"""States on disk: safetensors, a small JSON that makes them count, checksums over both."""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from trainables.specs.stages import Best, Origin, Stage
from trainables.storage.base import SEAL, Storage
from trainables.utils.hashing import digest

_STATE = "state.safetensors"


class Checkpoints:
    """States by name in one storage.

    A second writer of the same name is harmless since both write the same bits.

    Attributes:
        damaged: a line for each state that was found damaged, and removed.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.damaged: list[str] = []

    def save(self, name: str, stage: Stage) -> None:
        """Keeps a state, unless it is there already."""
        if self.storage.exists(name):
            return
        with self.storage.write(name) as folder:
            save_file(stage.tensors, folder / _STATE)
            about = {
                "instances": stage.instances,
                "history": stage.history,
                "origins": stage.origins,
                **({"best": stage.best} if stage.best else {}),
                "state": _sha256(folder / _STATE),
            }
            text = json.dumps({"stage": about, "sha256": digest(about)}, separators=(",", ":"))
            (folder / SEAL).write_text(text, encoding="utf-8")

    def load(self, name: str) -> Stage | None:
        """A state, or None where there is none or what is there is damaged: it is then trained again."""
        if not self.storage.exists(name):
            return None
        try:
            with self.storage.read(name) as folder:
                stage = _read(folder)
        except (FileNotFoundError, RuntimeError) as error:  # the second: gone when it is mapped
            if not self.storage.exists(name):  # removed meanwhile
                return None
            if isinstance(error, RuntimeError):
                raise
            reason = f"no {Path(error.filename or '').name}"
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            reason = str(error).splitlines()[0]
        else:
            self.storage.touch(name)
            return stage
        self.storage.remove(name)
        self.damaged.append(f"state {name} was damaged ({reason}), removed, and is computed again")
        return None


def _read(folder: Path) -> Stage:
    """The state in a folder; ValueError and others where it is damaged."""
    content: dict[str, Any] = json.loads((folder / SEAL).read_text(encoding="utf-8"))
    about = content["stage"]
    for name, known, found in (
        (SEAL, content["sha256"], digest(about)),
        (_STATE, about["state"], _sha256(folder / _STATE)),
    ):
        if known != found:
            raise ValueError(f"{name} does not have its checksum")
    origins = tuple(Origin(*origin) for origin in about["origins"])
    best = Best(*about["best"]) if "best" in about else None
    return Stage(about["instances"], load_file(folder / _STATE), about["history"], origins, best)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
