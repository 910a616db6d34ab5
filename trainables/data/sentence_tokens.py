"""Token arrays of every distinct sentence: `[CLS] sentence [SEP]`, ragged, in files that trials map and share.

`<cache>/tokens/<key>/{ids,offsets,pairs}.npy` and `meta.json`; the key is a digest of the data's fingerprint, the
model's digest and the maximal length.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.data.ranking_tokens import Ids, Positions, encode
from trainables.data.sentence_dataset import EVALUATED, PreparedSentences
from trainables.utils.checksums import checked_folder, loaded, verified_folder
from trainables.utils.errors import UserError
from trainables.utils.hashing import digest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 1
"""Part of every key: raised when the same input would give other files."""
_AT_ONCE = 10_000
"""Sentences that the tokenizer takes at once: what it returns is far larger than the ids."""


@dataclass(frozen=True)
class Sentences:
    """Token ids of every sentence: those of training in the order of `PreparedSentences.sentences()`, then those of the
    pairs, each once. The first are cut for training, the others are whole."""

    tokens: Ids
    """(tokens,) all sentences one after another."""
    offsets: Positions
    """(n + 1,) sentence r is `tokens[offsets[r]:offsets[r + 1]]`."""
    pairs: Positions
    """(2, pairs) the rows of a pair's sentences, in the order of `PreparedSentences.pairs()`."""
    splits: dict[str, tuple[int, int]]
    """Split -> its first pair and the one after its last."""
    training: int
    """Training sentences: rows 0 to `training` - 1."""
    truncated: int
    """Sentences of which something was cut."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Positions:
        """(n,) tokens a sentence, special ones among them."""
        lengths: Positions = np.diff(self.offsets)
        return lengths

    @property
    def flat(self) -> Ids:
        """(tokens,) all sentences one after another."""
        return self.tokens

    @property
    def starts(self) -> Positions:
        """(n,) where a second part would begin: there is none."""
        return self.lengths

    def ids(self, row: int) -> Ids:
        """(lengths[row],) token ids of a sentence."""
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    def first(self, split: str) -> Positions:
        """(pairs of the split,) row of each pair's first sentence."""
        return self.pairs[0, slice(*self.splits[split])]

    def second(self, split: str) -> Positions:
        """The same of the second."""
        return self.pairs[1, slice(*self.splits[split])]


def encoded(
    prepared: PreparedSentences,
    tokenizer: "PreTrainedTokenizerBase",
    model_name: str,
    max_length: int,
    longest: int,
    cache: Path,
) -> Sentences:
    """Tokenises prepared sentences, or maps what was tokenised before. A long one loses its end: in training, since an
    evaluation takes sentences as long as the model can (as that of Gao et al. 2021 does).

    Args:
        prepared: the data.
        tokenizer: the model's fast tokenizer.
        model_name: digest of the model's files, the tokenizer's among them.
        max_length: most tokens of a training sentence, special ones among them.
        longest: the same of a sentence of the pairs, the most that the model takes.
        cache: folder shared by studies.

    Raises:
        UserError: `max_length` leaves no room for a word, or the tokenizer is a slow one.
    """
    folder = encoded_folder(prepared, model_name, max_length, cache)
    return loaded(lambda: load(folder), lambda: _write(folder, prepared, tokenizer, max_length, longest))


def encoded_folder(prepared: PreparedSentences, model_name: str, max_length: int, cache: Path) -> Path:
    """Where the token arrays lie, once they are made; everything that they depend on is in the name."""
    return cache / "tokens" / digest(["sentences", FORMAT, prepared.fingerprint, model_name, max_length])


def load(folder: Path) -> Sentences:
    """Maps the arrays of a folder of tokens; `DamagedError` where they are not as they were written, or not there."""
    folder = verified_folder(folder)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return Sentences(
        np.load(folder / "ids.npy", mmap_mode="r"),
        np.load(folder / "offsets.npy", mmap_mode="r"),
        np.load(folder / "pairs.npy", mmap_mode="r"),
        {split: (first, last) for split, (first, last) in meta["splits"].items()},
        meta["training"],
        meta["truncated"],
    )


def around(tokenizer: "PreTrainedTokenizerBase") -> tuple[Ids, Ids]:
    """The special tokens that this tokenizer puts before and after a text, read off an example."""
    if not tokenizer.is_fast:
        raise UserError("model.name", type(tokenizer).__name__, "a model with a fast tokenizer")
    example = tokenizer("a")
    ids, parts = np.asarray(example["input_ids"], dtype=np.int32), example.sequence_ids(0)
    return ids[: parts.index(0)], ids[len(parts) - parts[::-1].index(0) :]


def _write(
    folder: Path, prepared: PreparedSentences, tokenizer: "PreTrainedTokenizerBase", max_length: int, longest: int
) -> None:
    before, after = around(tokenizer)
    special = len(before) + len(after)
    if max_length <= special:
        raise UserError("model.max_length", max_length, "a length that leaves room for a word")
    table = prepared.pairs()
    sentences, whole = prepared.sentences(), list(dict.fromkeys((*table["first"], *table["second"])))
    training = len(sentences)
    rows = {text: training + place for place, text in enumerate(whole)}
    blocks = [
        _joined(tokenizer, texts[start : start + _AT_ONCE], before, after, length - special)
        for texts, length in ((sentences, max_length), (whole, longest))
        for start in range(0, len(texts), _AT_ONCE)
    ]
    ids, lengths, cuts = zip(*blocks, strict=True)
    ends = np.cumsum([(table["split"] == split).sum() for split in EVALUATED]).tolist()
    meta: dict[str, Any] = {
        "fingerprint": prepared.fingerprint,
        "max_length": max_length,
        "training": training,
        "truncated": sum(cuts),
        "splits": dict(zip(EVALUATED, zip([0, *ends], ends, strict=False), strict=True)),
    }
    with checked_folder(folder) as draft:
        np.save(draft / "ids.npy", np.concatenate(ids))
        np.save(draft / "offsets.npy", np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))
        np.save(draft / "pairs.npy", np.array([[rows[text] for text in table[name]] for name in ("first", "second")]))
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _joined(
    tokenizer: "PreTrainedTokenizerBase", texts: list[str], before: Ids, after: Ids, room: int
) -> tuple[Ids, Positions, int]:
    """Ids of the texts one after another, tokens of each, and how many texts were cut."""
    bodies = encode(tokenizer, texts, room + 1)  # one more than can be kept, so that a cut shows
    ids = [part for body in bodies for part in (before, body[:room], after)]
    lengths = np.array([len(before) + min(len(body), room) + len(after) for body in bodies], dtype=np.int64)
    return np.concatenate(ids), lengths, sum(len(body) > room for body in bodies)
