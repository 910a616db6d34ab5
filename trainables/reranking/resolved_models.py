"""Finds the models of a re-ranking, and what their pairs of texts look like."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.models.model_json import check_subfolder, read_json_object
from trainables.models.pretrained import ENCODER_FILES, read_max_tokens, resolve_model_path
from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ENSEMBLE_FILE = "ensemble.json"
"""File in the folder of an ensemble that lists its models."""
_TOKENIZER_FILES = (
    "*.model",
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)


def resolve_models(name: str) -> list[Path]:
    """Return the folders of the models that a command line names: several for an ensemble.

    Args:
        name: folder of a cross-encoder, hub id, package:MODULE/FOLDER, or a folder with a file `ensemble.json`. Its key
            `models` lists the subfolders of the models of the ensemble.

    Raises:
        UserError: if there is no such model, or `ensemble.json` is damaged.
    """
    folder = Path(name).expanduser()
    if not (folder / ENSEMBLE_FILE).is_file():
        return [resolve_model_path(name, "MODEL", ENCODER_FILES)]
    try:
        names = json.loads((folder / ENSEMBLE_FILE).read_text(encoding="utf-8"))["models"]
        members = [folder / member for member in names]
    except (ValueError, KeyError, TypeError) as error:
        expected = 'an object like {"models": ["seed-1", "seed-2"]}'
        raise UserError("MODEL", f"{folder / ENSEMBLE_FILE} is damaged", expected) from error
    for member in names:
        check_subfolder(folder / ENSEMBLE_FILE, member)
    if not members:
        raise UserError("MODEL", f"{folder / ENSEMBLE_FILE} lists no model", "at least one")
    return [resolve_model_path(str(member.absolute()), "MODEL") for member in members]


def load_shared_tokenizer(paths: list[Path]) -> "PreTrainedTokenizerBase":
    """Return the tokenizer of the models.

    Raises:
        UserError: if the models have different tokenizers.
    """
    from trainables.models.pretrained import load_tokenizer

    if len({_hash_tokenizer(path) for path in paths}) > 1:
        raise UserError("MODEL", "models with different tokenizers", "models of an ensemble with the same tokenizer")
    return load_tokenizer(paths[0])


def get_max_length(paths: list[Path], tokenizer: "PreTrainedTokenizerBase", asked: int | None) -> int:
    """Return the maximum number of tokens of a pair.

    By default it is that of the tokenizer, as far as the models have positions.

    Raises:
        UserError: if a model has fewer positions than the user asks for, or if there is no maximum.
    """
    longest = min(read_max_tokens(path) for path in paths)
    if asked is not None:
        if asked > longest:
            raise UserError("--max-length", asked, f"at most the model's {longest}")
        return asked
    own = [read_json_object(path / "sentence_bert_config.json", "MODEL", {}).get("max_seq_length") for path in paths]
    return min(longest, *(int(number) for number in own if number), int(tokenizer.model_max_length))


def _hash_tokenizer(path: Path) -> str:
    names = sorted({file.name for pattern in _TOKENIZER_FILES for file in path.glob(pattern)})
    return hash_json([[name, hash_file(path / name)] for name in names])
