"""Tokenises the candidates of a ranking task: `[CLS] query [SEP] document [SEP]`.

The token arrays are ragged and in files that trials map and share: `<cache>/tokens/<key>/{ids,offsets,starts}.npy` and
`meta.json`. The key is a digest of the data's fingerprint, the model's digest, the maximum length and the words after
which a document is cut.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import SPLITS, get_task
from trainables.text.words import truncate_words
from trainables.utils.arrays import Ints
from trainables.utils.checksums import load_or_rebuild, verify_folder, write_folder_with_checksums
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 2
"""Part of every key. Increase it when the same input gives different files."""

_NO_LIMIT = 10**9
"""Tokens that no text has. With this limit, unlike without one, the tokenizer does not warn of long texts."""

_PIECES_PER_BLOCK = 50_000
"""Arrays of token ids that are concatenated at once, because an array takes more memory than the ids of a text."""

Ids = npt.NDArray[np.int32]
Positions = Ints


@dataclass(frozen=True)
class PairTokens:
    """Token ids of every candidate row, in the order of `RankingDataset.read_candidates()`."""

    flat: Ids
    """(tokens,) Token ids of all rows, concatenated."""
    offsets: Positions
    """(rows + 1,) Row r is `flat[offsets[r]:offsets[r + 1]]`."""
    starts: Ids
    """(rows,) Position within the row where the document's segment starts, after the [SEP] of the query."""
    specials: tuple[int, int, int]
    """Numbers of special tokens before the query, between query and document, and after the document: (1, 1, 1) for
    BERT. The query's own tokens are `[specials[0], start - specials[1])`, the document's
    `[start, length - specials[2])`."""
    splits: dict[str, tuple[int, int]]
    """Split -> first row and end of its rows (last row + 1)."""
    n_truncated: int
    """Number of rows that were truncated."""

    def __len__(self) -> int:
        return len(self.starts)

    def get_pair(self, row: int) -> tuple[Ids, int]:
        """Return the token ids of a row and the position where its document's segment starts.

        In a model with token types, the type is 0 before this position and 1 from there on.
        """
        return self.flat[self.offsets[row] : self.offsets[row + 1]], int(self.starts[row])

    @cached_property
    def lengths(self) -> Positions:
        """(rows,) Number of tokens of each row, including special tokens."""
        lengths: Positions = np.diff(self.offsets)
        return lengths

    def get_rows(self, split: str) -> slice:
        """Return the rows of a split."""
        return slice(*self.splits[split])


def tokenize_pairs(
    prepared: RankingDataset, tokenizer: "PreTrainedTokenizerBase", model_digest: str, max_length: int, cache: Path
) -> PairTokens:
    """Tokenise prepared data, or map the existing token arrays. Each text is tokenised once.

    A document is first cut after `document_words` words, if the task has this setting.

    A pair that is too long loses the end of its query first, but the query keeps at least a third of `max_length`. Then
    the document loses its end. In a dialogue, the response is cut first, to no less than a third of `max_length`. Then
    the context loses its beginning, or its end if the task's truncation is "plain". With "longest_first", the longer of
    query and document loses a token at its end until the pair fits.

    Raises:
        UserError: If `max_length` leaves no room for a document, or if the tokenizer is not a fast one.
    """
    folder = get_pair_tokens_folder(prepared, model_digest, max_length, cache)
    return load_or_rebuild(
        lambda: load_pair_tokens(folder), lambda: _write_tokens(folder, prepared, tokenizer, max_length)
    )


def get_pair_tokens_folder(prepared: RankingDataset, model_digest: str, max_length: int, cache: Path) -> Path:
    """Return the folder of the token arrays, which need not exist yet.

    Its name is a hash of everything that the arrays depend on.
    """
    key = [FORMAT, prepared.fingerprint, model_digest, max_length, prepared.settings.document_words]
    return cache / "tokens" / hash_json(key)


def load_pair_tokens(folder: Path) -> PairTokens:
    """Map the token arrays of a folder.

    Raises:
        DamagedError: If the folder is missing, or if its files changed since they were written.
    """
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
    """Return the special tokens that a tokenizer adds before, between and after two texts.

    They are taken from an example.

    Raises:
        UserError: If the tokenizer is not a fast one.
    """
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
    task, settings = get_task(prepared.settings.name), prepared.settings
    side = "left" if task.is_dialogue and settings.truncation == "oldest" else "right"
    # One more than fits, so that truncation is visible. Which of two long sides is the longer one needs their lengths.
    max_kept = room + 1 if settings.truncation != "longest_first" else None
    texts = queries["text"].tolist()
    if not settings.separators:
        texts = [" ".join(task.split_utterances(text)) for text in texts]
    heads = dict(zip(queries["query_id"], encode_texts(tokenizer, texts, max_kept, side), strict=True))
    texts = [truncate_words(text, settings.document_words) for text in documents["text"]]
    bodies = dict(zip(documents["document_id"], encode_texts(tokenizer, texts, max_kept), strict=True))

    blocks, pieces, truncated = list[Ids](), list[Ids](), 0
    starts = np.empty(len(candidates), dtype=np.int32)
    lengths = np.empty(len(candidates), dtype=np.int64)
    for row, (query, document) in enumerate(zip(candidates["query_id"], candidates["document_id"], strict=True)):
        head, body = heads[query], bodies[document]
        if settings.truncation == "longest_first":
            head, body = truncate_longest_first(head, body, room)
        else:
            head, body = _truncate_pair(head, body, room, third, side if task.is_dialogue else None)
        truncated += len(head) < len(heads[query]) or len(body) < len(bodies[document])
        pieces += [before, head, between, body, after]
        starts[row] = len(before) + len(head) + len(between)
        lengths[row] = starts[row] + len(body) + len(after)
        if len(pieces) >= _PIECES_PER_BLOCK:
            blocks.append(np.concatenate(pieces))
            pieces.clear()
    blocks += [np.concatenate(pieces)] if pieces else []

    ends = np.cumsum([(candidates["split"] == split).sum() for split in SPLITS]).tolist()
    meta: dict[str, Any] = {
        "fingerprint": prepared.fingerprint,
        "max_length": max_length,
        "specials": [len(before), len(between), len(after)],
        "truncated": truncated,
        "splits": dict(zip(SPLITS, zip([0, *ends], ends, strict=False), strict=True)),
    }
    with write_folder_with_checksums(folder) as draft:
        with (draft / "ids.npy").open("wb") as stream:
            _save_blocks(stream, blocks)
        np.save(draft / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
        np.save(draft / "starts.npy", starts)
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _save_blocks(stream: BinaryIO, blocks: list[Ids]) -> None:
    """Write what `np.save` writes of the concatenated blocks, without a copy of them."""
    shape = (sum(map(len, blocks)),)
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for block in blocks:
        stream.write(block.astype(np.int32, copy=False).data)


def _truncate_pair(query: Ids, document: Ids, room: int, third: int, side: str | None) -> tuple[Ids, Ids]:
    """Return query and document, truncated so that they fit.

    Args:
        query: Token ids of the query.
        document: Token ids of the document.
        room: Number of tokens that fit.
        third: A third of the maximum length.
        side: Side where the context of a dialogue is cut, "left" or "right". If None, the pair is not a dialogue: the
            query is cut first, at its end.
    """
    if side is None:
        query = query[: max(third, room - len(document))]
        return query, document[: room - len(query)]
    document = document[: max(third, room - len(query))]
    left = room - len(document)
    return query[-left:] if side == "left" else query[:left], document


def truncate_longest_first(query: Ids, document: Ids, room: int) -> tuple[Ids, Ids]:
    """Return query and document, of which the longer one has lost a token at its end until both fit.

    Of two equally long sides, the document loses the token, as in the code of Penha and Hauff and the slow tokenizers
    of transformers: a query that is too long keeps the odd token. Fast tokenizers give it to the longer side.

    Example:
        >>> query, document = truncate_longest_first(np.arange(280), np.arange(90), room=125)
        >>> len(query), len(document)
        (63, 62)
    """
    query = query[: max(room - room // 2, room - len(document))]
    return query, document[: room - len(query)]


def encode_texts(
    tokenizer: "PreTrainedTokenizerBase", texts: list[str], length: int | None, side: str = "right"
) -> list[Ids]:
    """Return the token ids of texts without special tokens, cut to `length`.

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
