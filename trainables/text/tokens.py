"""Token ids of texts: those of a tokenizer, and the arrays that processes map and share. Loads numpy alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trainables.utils.arrays import Ints
from trainables.utils.checksums import is_intact, verify_folder, write_folder_with_checksums
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = npt.NDArray[np.int32]
_NO_LIMIT = 10**9
"""Tokens that no text has. With this limit, unlike without one, the tokenizer does not warn of long texts."""
_BLOCK_SIZE = 10_000
"""Number of texts per call of the tokenizer. Its output needs far more memory than the ids."""


@dataclass(frozen=True)
class TokenizedTexts:
    """Token ids of texts: sentences, or pairs of a query and a document."""

    flat: Ids
    """(tokens,) Token ids of all texts, one after another."""
    offsets: Ints
    """(texts + 1,) Text r is `flat[offsets[r]:offsets[r + 1]]`."""
    starts: npt.NDArray[np.integer]
    """(texts,) Position in each text from which on tokens have the type 1; the end if there are none."""
    n_truncated: int = 0
    """Number of texts that were truncated."""

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Ints:
        """(texts,) Number of tokens of each text, including special tokens."""
        lengths: Ints = np.diff(self.offsets)
        return lengths

    def describe_lengths(self, unit: str) -> str:
        """Describe the numbers of tokens and the cut texts to a person; a text is one `unit`, such as a "pair"."""
        middle, high = np.quantile(self.lengths, [0.5, 0.95])
        cut = f"{self.n_truncated} of {len(self)} {unit}s ({100 * self.n_truncated / len(self):.1f} %) lose text"
        return f"tokens of a {unit}: {middle:.0f} in the median, {high:.0f} at 95 %; {cut}"

    def get_ids(self, row: int) -> Ids:
        """Return the token ids of a text, shape (lengths[row],)."""
        return self.flat[self.offsets[row] : self.offsets[row + 1]]


def encode_texts(
    tokenizer: "PreTrainedTokenizerBase", texts: list[str], length: int | None, side: str = "right"
) -> list[Ids]:
    """Return the token ids of texts without special tokens, cut to `length` at a side.

    The tokenizer itself cuts them, because it warns of long texts otherwise.
    """
    tokenizer.truncation_side = side
    encoded = tokenizer(
        texts,
        add_special_tokens=False,
        truncation=True,
        max_length=_NO_LIMIT if length is None else length,
        return_attention_mask=False,
        return_token_type_ids=False,
    )["input_ids"]
    return [np.asarray(ids, dtype=np.int32) for ids in encoded]


def tokenize_texts(tokenizer: "PreTrainedTokenizerBase", texts: list[str], max_length: int) -> TokenizedTexts:
    """Return the token ids of single texts, `[CLS] text [SEP]`. A text with more than `max_length` loses its end.

    Raises:
        UserError: If the tokenizer is not a fast one.
    """
    before, after = get_special_tokens(tokenizer, 1)
    room, blocks, lengths = max_length - len(before) - len(after), list[Ids](), list[int]()
    for start in range(0, len(texts), _BLOCK_SIZE):
        bodies = encode_texts(tokenizer, texts[start : start + _BLOCK_SIZE], room + 1)  # so that truncation is visible
        blocks.append(np.concatenate([part for body in bodies for part in (before, body[:room], after)]))
        lengths += map(len, bodies)
    kept = len(before) + len(after) + np.minimum(lengths, room)
    n_truncated = sum(length > room for length in lengths)
    return TokenizedTexts(np.concatenate(blocks), np.concatenate([[0], np.cumsum(kept)]), kept, n_truncated)


def load_or_tokenize(folder: Path, tokenize: Callable[[], TokenizedTexts]) -> TokenizedTexts:
    """Map the token arrays in a folder, after writing those of `tokenize` if it is missing or damaged."""
    names = ("flat", "offsets", "starts")
    if not is_intact(folder, remove_damaged=True):
        tokens = tokenize()
        with write_folder_with_checksums(folder) as draft:
            for name in (*names, "n_truncated"):
                np.save(draft / f"{name}.npy", getattr(tokens, name))
    verify_folder(folder)
    flat, offsets, starts = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in names)
    return TokenizedTexts(flat, offsets, starts, int(np.load(folder / "n_truncated.npy")))


def get_special_tokens(tokenizer: "PreTrainedTokenizerBase", n_texts: int) -> list[Ids]:
    """Return the special tokens that a tokenizer adds before, between and after one text or two.

    They are taken from an example.

    Raises:
        UserError: If the tokenizer is not a fast one.
    """
    if not tokenizer.is_fast:
        raise UserError("model.name", type(tokenizer).__name__, "a model with a fast tokenizer")
    example = tokenizer(*"ab"[:n_texts])
    ids, parts = np.asarray(example["input_ids"], dtype=np.int32), example.sequence_ids(0)
    edges = [edge for text in range(n_texts) for edge in (parts.index(text), len(parts) - parts[::-1].index(text))]
    return [ids[start:end] for start, end in zip([0, *edges[1::2]], [*edges[::2], len(parts)], strict=True)]
