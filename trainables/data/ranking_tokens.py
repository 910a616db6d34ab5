"""Token arrays of every candidate: `[CLS] query [SEP] document [SEP]`, ragged, in files that trials map and share.

`<cache>/tokens/<key>/{ids,offsets,starts}.npy` and `meta.json`; the key is a digest of the data's fingerprint, the
model's digest and the maximal length.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import SPLITS, get_task
from trainables.utils.arrays import Ints
from trainables.utils.checksums import load_or_rebuild, verify_folder, write_folder_with_checksums
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 2
"""Part of every key: raised when the same input would give other files."""

Ids = npt.NDArray[np.int32]
Positions = Ints


@dataclass(frozen=True)
class PairTokens:
    """Token ids of every candidate row, in the order of `Prepared.candidates()`."""

    ids: Ids
    """(tokens,) all rows one after another."""
    offsets: Positions
    """(rows + 1,) row r is `ids[offsets[r]:offsets[r + 1]]`."""
    starts: Ids
    """(rows,) position within the row where the document's segment starts, after the [SEP] of the query."""
    specials: tuple[int, int, int]
    """Special tokens before the query, between query and document, and after the document: (1, 1, 1) for BERT.
    The query's own tokens are `[specials[0], start - specials[1])`, the document's `[start, length - specials[2])`."""
    splits: dict[str, tuple[int, int]]
    """Split -> its first row and the one after its last."""
    n_truncated: int
    """Rows of which something was cut."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def flat(self) -> Ids:
        """(tokens,) all rows one after another."""
        return self.ids

    def get_pair(self, row: int) -> tuple[Ids, int]:
        """Token ids of a row, and where its document's segment starts: token types are 0 before it and 1 from there,
        for a model that has types."""
        return self.ids[self.offsets[row] : self.offsets[row + 1]], int(self.starts[row])

    @cached_property
    def lengths(self) -> Positions:
        """(rows,) tokens a row."""
        lengths: Positions = np.diff(self.offsets)
        return lengths

    def get_rows(self, split: str) -> slice:
        """The rows of a split."""
        return slice(*self.splits[split])


def tokenize_pairs(
    prepared: RankingDataset, tokenizer: "PreTrainedTokenizerBase", model_digest: str, max_length: int, cache: Path
) -> PairTokens:
    """Tokenises prepared data, every text once, or maps what was tokenised before.

    The query is cut to what the document leaves, at least a third of `max_length`, then the document to what is left
    beside the special tokens. Of a dialogue the response is cut so, then the context: it loses its beginning, or under
    truncation "plain" its end.

    Args:
        prepared: the data.
        tokenizer: the model's fast tokenizer.
        model_digest: digest of the model's files, the tokenizer's among them.
        max_length: most tokens of a row.
        cache: folder shared by studies.

    Raises:
        UserError: `max_length` leaves no room for a document, or the tokenizer is a slow one.
    """
    folder = get_pair_tokens_folder(prepared, model_digest, max_length, cache)
    return load_or_rebuild(
        lambda: load_pair_tokens(folder), lambda: _write_tokens(folder, prepared, tokenizer, max_length)
    )


def get_pair_tokens_folder(prepared: RankingDataset, model_digest: str, max_length: int, cache: Path) -> Path:
    """Where the token arrays lie, once they are made; everything that they depend on is in the name."""
    return cache / "tokens" / hash_json([FORMAT, prepared.fingerprint, model_digest, max_length])


def load_pair_tokens(folder: Path) -> PairTokens:
    """Maps the arrays of a folder of tokens; `DamagedError` where they are not as they were written, or not there."""
    folder = verify_folder(folder)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    before, between, after = meta["specials"]
    return PairTokens(
        np.load(folder / "ids.npy", mmap_mode="r"),
        np.load(folder / "offsets.npy", mmap_mode="r"),
        np.load(folder / "starts.npy", mmap_mode="r"),
        (before, between, after),
        {split: (first, last) for split, (first, last) in meta["splits"].items()},
        meta["truncated"],
    )


def get_pair_special_tokens(tokenizer: "PreTrainedTokenizerBase") -> tuple[Ids, Ids, Ids]:
    """The special tokens that this tokenizer puts before, between and after a pair of texts, read off an example."""
    if not tokenizer.is_fast:
        raise UserError("model.name", type(tokenizer).__name__, "a model with a fast tokenizer")
    example = tokenizer("a", "b")
    ids, parts = np.asarray(example["input_ids"], dtype=np.int32), example.sequence_ids(0)
    first, second = parts.index(0), parts.index(1)
    first_end, second_end = len(parts) - parts[::-1].index(0), len(parts) - parts[::-1].index(1)
    return ids[:first], ids[first_end:second], ids[second_end:]


def _write_tokens(
    folder: Path, prepared: RankingDataset, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> None:
    before, between, after = get_pair_special_tokens(tokenizer)
    third, room = max_length // 3, max_length - len(before) - len(between) - len(after)
    if room <= third:
        raise UserError("model.max_length", max_length, "a length that leaves room for a document")
    candidates, queries, documents = prepared.read_candidates(), prepared.read_queries(), prepared.read_documents()
    dialogue = get_task(prepared.settings.name).is_dialogue
    side = "left" if dialogue and prepared.settings.truncation == "oldest" else "right"
    max_kept = room + 1  # one more than can be kept, so that a cut shows
    heads = dict(zip(queries["query_id"], encode_texts(tokenizer, list(queries["text"]), max_kept, side), strict=True))
    bodies = dict(
        zip(documents["document_id"], encode_texts(tokenizer, list(documents["text"]), max_kept), strict=True)
    )

    pieces, truncated = list[Ids](), 0
    starts = np.empty(len(candidates), dtype=np.int32)
    lengths = np.empty(len(candidates), dtype=np.int64)
    for row, (query, document) in enumerate(zip(candidates["query_id"], candidates["document_id"], strict=True)):
        head, body = _truncate_pair(heads[query], bodies[document], room, third, side if dialogue else None)
        truncated += len(head) < len(heads[query]) or len(body) < len(bodies[document])
        pieces += [before, head, between, body, after]
        starts[row] = len(before) + len(head) + len(between)
        lengths[row] = starts[row] + len(body) + len(after)

    ends = np.cumsum([(candidates["split"] == split).sum() for split in SPLITS]).tolist()
    meta: dict[str, Any] = {
        "fingerprint": prepared.fingerprint,
        "max_length": max_length,
        "specials": [len(before), len(between), len(after)],
        "truncated": truncated,
        "splits": dict(zip(SPLITS, zip([0, *ends], ends, strict=False), strict=True)),
    }
    with write_folder_with_checksums(folder) as draft:
        np.save(draft / "ids.npy", np.concatenate(pieces))
        np.save(draft / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
        np.save(draft / "starts.npy", starts)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _truncate_pair(query: Ids, document: Ids, room: int, third: int, side: str | None) -> tuple[Ids, Ids]:
    """What of a pair has room; `side`: where a dialogue's context is cut; none: the query is cut first, at its end."""
    if side is None:
        query = query[: max(third, room - len(document))]
        return query, document[: room - len(query)]
    document = document[: max(third, room - len(query))]
    left = room - len(document)
    return query[-left:] if side == "left" else query[:left], document


def encode_texts(tokenizer: "PreTrainedTokenizerBase", texts: list[str], length: int, side: str = "right") -> list[Ids]:
    """Token ids of texts without special tokens, cut to `length` at a side; by the tokenizer, which warns of longer
    ones otherwise."""
    tokenizer.truncation_side = side
    encoded = tokenizer(
        texts,
        add_special_tokens=False,
        truncation=True,
        max_length=length,
        return_attention_mask=False,
        return_token_type_ids=False,
    )["input_ids"]
    return [np.asarray(ids, dtype=np.int32) for ids in encoded]
