"""Tokenises the distinct sentences of the sentence encoder's data: `[CLS] sentence [SEP]`.

The token arrays are ragged and in files that trials map and share: `<cache>/tokens/<key>/{ids,offsets,pairs}.npy` and
`meta.json`. The key is a digest of the data's fingerprint, the model's digest and the maximum length.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.data.sentence_dataset import EVALUATION_SPLITS, SentenceDataset
from trainables.text.tokens import TokenizedTexts, tokenize_texts
from trainables.utils.arrays import Ints
from trainables.utils.checksums import is_intact, verify_folder, write_folder_with_checksums
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 1
"""Part of every key. Increase it when the same input gives different files."""


@dataclass(frozen=True, kw_only=True)
class SentenceTokens(TokenizedTexts):
    """Token ids of every sentence.

    The first rows are the training sentences, in the order of `SentenceDataset.read_sentences()`. They are cut to the
    maximum length of training. The other rows are the distinct sentences of the pairs, cut only to the most tokens that
    the model takes.
    """

    pairs: Ints
    """(2, pairs) Rows of the two sentences of each pair, in the order of `SentenceDataset.read_pairs()`."""
    splits: dict[str, tuple[int, int]]
    """Split -> first pair and end of its pairs (last pair + 1)."""
    n_training: int
    """Number of training sentences, which are the rows 0 to `n_training` - 1."""

    def get_pairs(self, split: str) -> Ints:
        """Return the rows of the two sentences of each pair of a split, of shape (2, pairs)."""
        return self.pairs[:, slice(*self.splits[split])]


def tokenize_sentences(
    prepared: SentenceDataset,
    tokenizer: "PreTrainedTokenizerBase",
    model_name: str,
    max_length: int,
    max_evaluation_length: int,
    cache: Path,
) -> SentenceTokens:
    """Tokenise prepared sentences, or map the existing token arrays.

    A sentence that is too long loses its end. Training sentences are cut to `max_length`. Sentences of pairs may be as
    long as the model allows, as in the evaluation of Gao et al. (2021).

    Raises:
        UserError: If the tokenizer is not a fast one.
    """
    folder = get_sentence_tokens_folder(prepared, model_name, max_length, cache)
    if not is_intact(folder, remove_damaged=True):
        _write_tokens(folder, prepared, tokenizer, max_length, max_evaluation_length)
    return load_sentence_tokens(folder)


def get_sentence_tokens_folder(prepared: SentenceDataset, model_name: str, max_length: int, cache: Path) -> Path:
    """Return the folder of the token arrays, which need not exist yet.

    Its name is a hash of everything that the arrays depend on.
    """
    return cache / "tokens" / hash_json(["sentences", FORMAT, prepared.fingerprint, model_name, max_length])


def load_sentence_tokens(folder: Path) -> SentenceTokens:
    """Map the token arrays of a folder.

    Raises:
        DamagedError: If the folder is missing, or if its files changed since they were written.
    """
    folder = verify_folder(folder)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    ids, offsets, pairs = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets", "pairs"))
    return SentenceTokens(
        ids,
        offsets,
        np.diff(offsets),
        meta["truncated"],
        pairs=pairs,
        splits={split: (first, last) for split, (first, last) in meta["splits"].items()},
        n_training=meta["training"],
    )


def _write_tokens(
    folder: Path,
    prepared: SentenceDataset,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    max_evaluation_length: int,
) -> None:
    table = prepared.read_pairs()
    sentences, whole = prepared.read_sentences(), list(dict.fromkeys((*table["first"], *table["second"])))
    training = len(sentences)
    rows = {text: row for row, text in enumerate(whole, training)}
    parts = [tokenize_texts(tokenizer, sentences, max_length), tokenize_texts(tokenizer, whole, max_evaluation_length)]
    lengths = np.concatenate([part.lengths for part in parts])
    ends = np.cumsum([(table["split"] == split).sum() for split in EVALUATION_SPLITS]).tolist()
    meta: dict[str, Any] = {
        "fingerprint": prepared.fingerprint,
        "max_length": max_length,
        "training": training,
        "truncated": sum(part.n_truncated for part in parts),
        "splits": dict(zip(EVALUATION_SPLITS, zip([0, *ends], ends, strict=False), strict=True)),
    }
    with write_folder_with_checksums(folder) as draft:
        np.save(draft / "ids.npy", np.concatenate([part.flat for part in parts]))
        np.save(draft / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
        np.save(draft / "pairs.npy", np.array([[rows[text] for text in table[name]] for name in ("first", "second")]))
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
