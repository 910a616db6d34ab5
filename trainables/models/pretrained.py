"""Locations of model files, checks of their settings, and the digest that identifies a model.

The module does not load torch.
"""

import hashlib
import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

from trainables.models.architectures import ARCHITECTURES, Architecture, get_architecture, require_separate_layers
from trainables.specs.base import BaseModelSettings
from trainables.utils.errors import UserError

_COMMON_FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "merges.txt",
)
_OPTIONAL_FILES = (
    "*.model",
    "added_tokens.json",
    "bpe.codes",
    "dict.txt",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.*.json",
    "vocab.json",
)
"""Patterns of the files that only some models have: other vocabularies, and weights in several files."""
_VOCABULARY_FILES = (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt"), ("*.model",))
"""Groups of file patterns; a model needs all files of at least one group as its vocabulary."""
ENCODER_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
"""Patterns of the files of a sentence encoder, in its folder and below it."""
SLOW_TOKENIZERS = ("BertJapaneseTokenizer", "BertweetTokenizer", "PhobertTokenizer")
"""Tokenizer classes of these model types that have no fast version."""


def resolve_model_path(
    name: str, key: str = "model.name", files: tuple[str, ...] = _COMMON_FILES + _OPTIONAL_FILES
) -> Path:
    """Return the folder with the model's files, and download them if needed.

    Args:
        name: package:MODULE/FOLDER (weights inside an installed package), a local folder, or a hub id. The files of a
            hub id are taken from the hub's cache, or downloaded.
        key: name of the setting, for error messages.
        files: patterns of the files to download.

    Raises:
        UserError: if the package or folder does not exist, or if a hub id can be neither found nor downloaded.
    """
    if name.startswith("package:"):
        module, _, inside = name.removeprefix("package:").partition("/")
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.origin is None:
            raise UserError(
                key, f"package {module!r} is not installed", f"an installed package (`pip install`) for {name}"
            )
        return _require_model_folder(Path(spec.origin).parent / inside, name, key)
    if not _is_hub_id(name):
        return _require_model_folder(Path(os.path.expanduser(name)).resolve(), name, key)
    return _fetch_from_hub(name, key, files)


def resolve_encoder_path(name: str, key: str = "task.sampler.encoder") -> Path:
    """Return the folder of a sentence encoder, including the files that define its pooling.

    Raises:
        UserError: as for `resolve_model_path`.
    """
    return resolve_model_path(name, key, ENCODER_FILES)


def _require_model_folder(path: Path, name: str, key: str) -> Path:
    if not (path / "config.json").is_file():
        raise UserError(key, f"no model at {name!r}", "a folder with config.json and model.safetensors")
    return path


def find_local_model(name: str) -> Path | None:
    """Return the model's folder if its weights are on this machine, or None if the hub is needed.

    Raises:
        UserError: if the package or folder does not exist.
    """
    if not _is_hub_id(name):
        return resolve_model_path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, allow_patterns=[*_COMMON_FILES, *_OPTIONAL_FILES], local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if (folder / "model.safetensors").is_file() else None


def _is_hub_id(name: str) -> bool:
    return not (name.startswith(("package:", ".", "/", "~")) or Path(name).is_dir())


def _fetch_from_hub(name: str, key: str, files: tuple[str, ...]) -> Path:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from huggingface_hub import errors, snapshot_download

    try:
        return _require_model_folder(Path(snapshot_download(name, allow_patterns=list(files))), name, key)
    except UserError:
        raise
    except errors.GatedRepoError as error:
        raise UserError(
            key, f"access to {name!r} on the hub is restricted", "a token with access in HF_TOKEN"
        ) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise UserError(key, f"the hub has no {name!r}", "a hub id (if private, with HF_TOKEN) or a folder") from error
    except Exception as error:  # no network, a server that is down, an incomplete download
        cause = error.__cause__ or error
        offline = isinstance(cause, errors.OfflineModeIsEnabled)
        reason = "HF_HUB_OFFLINE is set" if offline else (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        problem = f"cannot reach the hub for {name!r} ({reason})"
        raise UserError(key, problem, "a network connection, a model in the hub's cache, or a local folder") from error


def read_max_tokens(path: Path) -> int:
    """Return the number of tokens of the longest text that the model accepts."""
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return int(config["max_position_embeddings"]) - _count_reserved_positions(config)


def read_architecture(path: Path) -> Architecture:
    """Return the architecture of the model.

    Raises:
        UserError: if it is unknown.
    """
    return get_architecture(json.loads((path / "config.json").read_text(encoding="utf-8")).get("model_type"))


def count_layers_to_reinitialize(path: Path, n_fresh: int) -> int:
    """Return the number of layers of the model, of which `n_fresh` are to start with random weights.

    Raises:
        UserError: if the architecture is unknown, or if its layers share their weights.
    """
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    architecture = get_architecture(config.get("model_type"))
    require_separate_layers(config["model_type"], "model.reinit_layers", n_fresh)
    return int(config[architecture.layer_count])


def _count_reserved_positions(config: dict[str, Any]) -> int:
    """Return the number of positions that no token uses."""
    architecture = ARCHITECTURES.get(config.get("model_type", ""))
    return int(config.get("pad_token_id", 1)) + 1 if architecture and architecture.positions_follow_padding else 0


def check_model_settings(path: Path, model: BaseModelSettings) -> None:
    """Raise an error for settings that the model does not support, before anything is loaded.

    Raises:
        UserError: if the architecture is unknown, if the settings ask for more layers or tokens than the model has or
            leave no layer to train, if layers that share their weights are to be frozen, or if the model's files are
            missing, damaged or unsupported.
    """
    config = _read_json_object(path / "config.json")
    architecture = get_architecture(config.get("model_type"))
    layers, length = config.get(architecture.layer_count), config.get("max_position_embeddings")
    if length is not None:
        length -= _count_reserved_positions(config)
    if layers is not None and model.layers is not None and model.layers > layers:
        raise UserError("model.num_layers", model.layers, f"at most the model's {layers}")
    if layers is not None and model.frozen_layers >= (model.layers or layers):
        raise UserError("model.frozen_layers", model.frozen_layers, f"fewer than the {model.layers or layers} in use")
    if model.frozen_layers:
        require_separate_layers(config["model_type"], "model.frozen_layers", model.frozen_layers)
    if length is not None and model.max_length > length:
        raise UserError("model.max_length", model.max_length, f"at most the model's {length}")
    if not any(all(_list_matching_files(path, name) for name in names) for names in _VOCABULARY_FILES):
        expected = ", ".join(" with ".join(names) for names in _VOCABULARY_FILES[:-1])
        expected = f"{expected} or {_VOCABULARY_FILES[-1][0]} next to its weights"
        raise UserError("model.name", f"no tokenizer in {path.name!r}", expected)
    if (path / "adapter_config.json").is_file():  # transformers ignores it unless the package peft is installed
        expected = "weights that the adapter is merged into, without adapter_config.json"
        raise UserError("model.name", f"an adapter in {path.name!r}", expected)
    tokenizer_config = (
        _read_json_object(path / "tokenizer_config.json") if (path / "tokenizer_config.json").is_file() else {}
    )
    tokenizer = tokenizer_config.get("tokenizer_class") or config.get("tokenizer_class")
    if tokenizer in SLOW_TOKENIZERS:
        raise UserError("model.name", tokenizer, "a model with a fast tokenizer")
    for name in _list_weight_files(path):
        if not (path / name).is_file():
            raise UserError("model.name", f"no {name} in {path.name!r}", "weights as safetensors")
        if name.endswith(".safetensors") and not _is_complete(path / name):
            raise UserError("model.name", f"{name} in {path.name!r} is incomplete", "the complete file")


def _read_json_object(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UserError(
            "model.name", f"{file.name} in {file.parent.name!r} is not a JSON object", "the model's own file"
        )
    return content


def _is_complete(weights: Path) -> bool:
    """Return whether the file is as long as its header says.

    The file consists of 8 bytes with the length of the header, the header and the tensors.
    """
    with weights.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        try:
            header = json.loads(stream.read(length) if length < weights.stat().st_size else b"")
            ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
    return 8 + length + max(ends, default=0) == weights.stat().st_size


def hash_model_files(path: Path) -> str:
    """Return "sha256:" and 16 hexadecimal digits over the names and contents of the model's files."""
    optional = {
        name
        for pattern in (*_OPTIONAL_FILES, *_list_weight_files(path))
        for name in _list_matching_files(path, pattern)
    }
    return _hash_files(
        path, [name for name in _COMMON_FILES if (path / name).is_file()] + sorted(optional - set(_COMMON_FILES))
    )


def hash_encoder_files(path: Path) -> str:
    """Return the same digest over everything that a sentence encoder reads from its folder."""
    return _hash_files(path, list_encoder_files(path))


def list_encoder_files(path: Path) -> list[str]:
    """Return the paths, relative to the folder, of everything that a sentence encoder reads from it, sorted."""
    files = {file for pattern in ENCODER_FILES for file in path.rglob(pattern) if file.is_file()}
    pickled = (file for file in path.rglob("*.bin") if file.is_file())  # read if there are no safetensors
    files |= {file for file in pickled if not any(file.parent.glob("*.safetensors"))}
    return sorted(str(file.relative_to(path)) for file in files)


def _list_matching_files(path: Path, pattern: str) -> list[str]:
    return [file.name for file in path.glob(pattern) if file.is_file()]


def _list_weight_files(path: Path) -> list[str]:
    """Return the names of the weight files as transformers chooses them.

    They are one file, or an index and the files that it names.

    Raises:
        UserError: if the index is damaged.
    """
    single, index = "model.safetensors", "model.safetensors.index.json"
    configured = json.loads((path / "config.json").read_text(encoding="utf-8")).get("transformers_weights")
    first = configured or (single if (path / single).is_file() or not (path / index).is_file() else index)
    if not first.endswith(".index.json") or not (path / first).is_file():
        return [first]
    try:
        return [first, *sorted(set(json.loads((path / first).read_text(encoding="utf-8"))["weight_map"].values()))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{first} in {path.name!r} is damaged ({error})"
        raise UserError("model.name", reason, "an index that names the files of the weights") from error


def _hash_files(path: Path, names: list[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        with (path / name).open("rb") as stream:
            digest.update(f"{name}:{hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return f"sha256:{digest.hexdigest()[:16]}"


def read_licence(path: Path) -> str | None:
    """Return the licence that the model card in a model's folder names, or None."""
    card = path / "README.md"
    if not card.is_file():
        return None
    head = card.read_text(encoding="utf-8").partition("\n---")[0]
    found = re.search(r"^license: *([\w.-]+) *$", head, re.MULTILINE)
    return found and found[1]
