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

from trainables.data.ranking_tokens import Ids, Positions, encode_texts
from trainables.data.sentence_dataset import EVALUATION_SPLITS, SentenceDataset
from trainables.utils.checksums import load_or_rebuild, verify_folder, write_folder_with_checksums
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 1
"""Part of every key: raised when the same input would give other files."""
_BLOCK_SIZE = 10_000
"""Sentences that the tokenizer takes at once: what it returns is far larger than the ids."""


@dataclass(frozen=True)
class SentenceTokens:
    """Token ids of every sentence: those of training in the order of `PreparedSentences.sentences()`, then those of the
    pairs, each once. The first are cut for training, the others are whole."""

    ids: Ids
    """(tokens,) all sentences one after another."""
    offsets: Positions
    """(n + 1,) sentence r is `tokens[offsets[r]:offsets[r + 1]]`."""
    pairs: Positions
    """(2, pairs) the rows of a pair's sentences, in the order of `PreparedSentences.pairs()`."""
    splits: dict[str, tuple[int, int]]
    """Split -> its first pair and the one after its last."""
    n_training: int
    """Training sentences: rows 0 to `training` - 1."""
    n_truncated: int
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
        return self.ids

    @property
    def starts(self) -> Positions:
        """(n,) where a second part would begin: there is none."""
        return self.lengths

    def get_ids(self, row: int) -> Ids:
        """(lengths[row],) token ids of a sentence."""
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def get_first_rows(self, split: str) -> Positions:
        """(pairs of the split,) row of each pair's first sentence."""
        return self.pairs[0, slice(*self.splits[split])]

    def get_second_rows(self, split: str) -> Positions:
        """The same of the second."""
        return self.pairs[1, slice(*self.splits[split])]


def tokenize_sentences(
    prepared: SentenceDataset,
    tokenizer: "PreTrainedTokenizerBase",
    model_name: str,
    max_length: int,
    max_evaluation_length: int,
    cache: Path,
) -> SentenceTokens:
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
    folder = get_sentence_tokens_folder(prepared, model_name, max_length, cache)
    return load_or_rebuild(
        lambda: load_sentence_tokens(folder),
        lambda: _write_tokens(folder, prepared, tokenizer, max_length, max_evaluation_length),
    )


def get_sentence_tokens_folder(prepared: SentenceDataset, model_name: str, max_length: int, cache: Path) -> Path:
    """Where the token arrays lie, once they are made; everything that they depend on is in the name."""
    return cache / "tokens" / hash_json(["sentences", FORMAT, prepared.fingerprint, model_name, max_length])


def load_sentence_tokens(folder: Path) -> SentenceTokens:
    """Maps the arrays of a folder of tokens; `DamagedError` where they are not as they were written, or not there."""
    folder = verify_folder(folder)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return SentenceTokens(
        np.load(folder / "ids.npy", mmap_mode="r"),
        np.load(folder / "offsets.npy", mmap_mode="r"),
        np.load(folder / "pairs.npy", mmap_mode="r"),
        {split: (first, last) for split, (first, last) in meta["splits"].items()},
        meta["training"],
        meta["truncated"],
    )


def get_sentence_special_tokens(tokenizer: "PreTrainedTokenizerBase") -> tuple[Ids, Ids]:
    """The special tokens that this tokenizer puts before and after a text, read off an example."""
    if not tokenizer.is_fast:
        raise UserError("model.name", type(tokenizer).__name__, "a model with a fast tokenizer")
    example = tokenizer("a")
    ids, parts = np.asarray(example["input_ids"], dtype=np.int32), example.sequence_ids(0)
    return ids[: parts.index(0)], ids[len(parts) - parts[::-1].index(0) :]


def _write_tokens(
    folder: Path,
    prepared: SentenceDataset,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    max_evaluation_length: int,
) -> None:
    before, after = get_sentence_special_tokens(tokenizer)
    special = len(before) + len(after)
    if max_length <= special:
        raise UserError("model.max_length", max_length, "a length that leaves room for a word")
    table = prepared.read_pairs()
    sentences, whole = prepared.read_sentences(), list(dict.fromkeys((*table["first"], *table["second"])))
    training = len(sentences)
    rows = {text: training + place for place, text in enumerate(whole)}
    blocks = [
        _tokenize_block(tokenizer, texts[start : start + _BLOCK_SIZE], before, after, length - special)
        for texts, length in ((sentences, max_length), (whole, max_evaluation_length))
        for start in range(0, len(texts), _BLOCK_SIZE)
    ]
    ids, lengths, cuts = zip(*blocks, strict=True)
    ends = np.cumsum([(table["split"] == split).sum() for split in EVALUATION_SPLITS]).tolist()
    meta: dict[str, Any] = {
        "fingerprint": prepared.fingerprint,
        "max_length": max_length,
        "training": training,
        "truncated": sum(cuts),
        "splits": dict(zip(EVALUATION_SPLITS, zip([0, *ends], ends, strict=False), strict=True)),
    }
    with write_folder_with_checksums(folder) as draft:
        np.save(draft / "ids.npy", np.concatenate(ids))
        np.save(draft / "offsets.npy", np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))
        np.save(draft / "pairs.npy", np.array([[rows[text] for text in table[name]] for name in ("first", "second")]))
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _tokenize_block(
    tokenizer: "PreTrainedTokenizerBase", texts: list[str], before: Ids, after: Ids, room: int
) -> tuple[Ids, Positions, int]:
    """Ids of the texts one after another, tokens of each, and how many texts were cut."""
    bodies = encode_texts(tokenizer, texts, room + 1)  # one more than can be kept, so that a cut shows
    ids = [part for body in bodies for part in (before, body[:room], after)]
    lengths = np.array([len(before) + min(len(body), room) + len(after) for body in bodies], dtype=np.int64)
    return np.concatenate(ids), lengths, sum(len(body) > room for body in bodies)
