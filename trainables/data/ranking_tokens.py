"""Tokenises the candidates of a ranking task: `[CLS] query [SEP] document [SEP]`.

The token arrays are ragged and in files that trials map and share: `<cache>/tokens/<key>/{ids,offsets,starts}.npy` and
`meta.json`. The key is a digest of the data's fingerprint, the model's digest, the maximum length and the words after
which a document is cut.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import SPLITS, get_task
from trainables.exchange.input_rules import InputRules
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.tokens import Ids, TokenizedTexts, encode_texts, get_special_tokens
from trainables.utils.arrays import Ints
from trainables.utils.checksums import is_intact, verify_folder, write_folder_with_checksums
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 2
"""Part of every key. Increase it when the same input gives different files."""

_PAIRS_PER_BLOCK = 10_000
"""Number of pairs for one concatenation of arrays of token ids, because an array takes more memory than its ids."""


@dataclass(frozen=True, kw_only=True)
class PairTokens(TokenizedTexts):
    """Token ids of every candidate row, in the order of `RankingDataset.read_candidates()`.

    `starts` are the positions where the documents' segments start, after the [SEP] of the query.
    """

    specials: tuple[int, int, int]
    """Numbers of special tokens before the query, between query and document, and after the document: (1, 1, 1) for
    BERT. The query's own tokens are `[specials[0], start - specials[1])`, the document's
    `[start, length - specials[2])`."""
    splits: dict[str, tuple[int, int]]
    """Split -> first row and end of its rows (last row + 1)."""

    def get_rows(self, split: str) -> slice:
        """Return the rows of a split."""
        return slice(*self.splits[split])


class TextTokens(NamedTuple):
    """Tokens of the queries or of the documents, which pairs consist of.

    Attributes:
        flat: token ids of all texts, in any order, shape (tokens,).
        starts: index in `flat` of the first token of each text, shape (texts,).
        lengths: tokens of each text, shape (texts,). No more than fit into a pair are in `flat`: its first ones, or the
            last ones of a query that loses its beginning.
    """

    flat: Ids
    starts: Ints
    lengths: Ints


class PairFormat(NamedTuple):
    """Special tokens of a pair of texts, and its length.

    Attributes:
        before: tokens before the query.
        between: tokens between query and document.
        after: tokens after the document.
        has_token_types: True if tokens from the document on have type 1. If False, all tokens have type 0.
        max_length: maximum number of tokens of a pair, including the special tokens.
        rules: how a pair is cut.
    """

    before: Ids
    between: Ids
    after: Ids
    has_token_types: bool
    max_length: int
    rules: InputRules = InputRules()

    @property
    def room(self) -> int:
        """Maximum number of tokens of query and document together."""
        return self.max_length - len(self.before) - len(self.between) - len(self.after)


def make_input_rules(settings: RankerTaskSettings) -> InputRules:
    """Return the rules by which a study makes the inputs of its rankers."""
    task = get_task(settings.name)
    is_plain = settings.truncation == "longest_first" or task.is_dialogue
    return InputRules(
        document_words=settings.document_words,
        truncation=settings.truncation if is_plain else "query_first",
        joined_tokens=() if settings.separators else task.added_tokens,
    )


def tokenize_pairs(
    prepared: RankingDataset, tokenizer: "PreTrainedTokenizerBase", model_digest: str, max_length: int, cache: Path
) -> PairTokens:
    """Tokenise prepared data, or map the existing token arrays. Each text is tokenised once.

    Texts and pairs are cut by the rules of `make_input_rules`, see `InputRules.truncation`.

    Raises:
        UserError: If the tokenizer is not a fast one.
    """
    folder = get_pair_tokens_folder(prepared, model_digest, max_length, cache)
    if not is_intact(folder, remove_damaged=True):
        _write_tokens(folder, prepared, tokenizer, max_length)
    return load_pair_tokens(folder)


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
    ids, offsets, starts = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets", "starts"))
    return PairTokens(
        ids,
        offsets,
        starts,
        meta["truncated"],
        specials=(before, between, after),
        splits={split: (first, last) for split, (first, last) in meta["splits"].items()},
    )


def join_pairs(
    queries: TextTokens, documents: TextTokens, query_codes: Ints, document_codes: Ints, form: PairFormat
) -> TokenizedTexts:
    """Return the token ids of pairs, cut by the rules of the format.

    Args:
        queries: tokens of the queries.
        documents: tokens of the documents.
        query_codes: number of the query of each pair, shape (pairs,).
        document_codes: number of the document of each pair, shape (pairs,).
        form: special tokens, length and rules.
    """
    lengths = queries.lengths[query_codes], documents.lengths[document_codes]
    query_lengths, document_lengths = form.rules.cut_pairs(*lengths, form.room, form.max_length // 3)
    query_starts = queries.starts[query_codes]
    if form.rules.truncation == "oldest":
        query_starts = query_starts + np.minimum(lengths[0], form.room) - query_lengths
    sides = (query_starts, query_lengths, documents.starts[document_codes], document_lengths)
    pieces = list[Ids]()
    for query, n_query, document, n_document in zip(*(side.tolist() for side in sides), strict=True):
        texts = queries.flat[query : query + n_query], documents.flat[document : document + n_document]
        pieces += [form.before, texts[0], form.between, texts[1], form.after]
    starts = len(form.before) + query_lengths + len(form.between)
    ends = starts + document_lengths + len(form.after)
    n_truncated = int((query_lengths + document_lengths < lengths[0] + lengths[1]).sum())
    offsets = np.concatenate([[0], np.cumsum(ends)])
    return TokenizedTexts(np.concatenate(pieces), offsets, starts if form.has_token_types else ends, n_truncated)


def _write_tokens(
    folder: Path, prepared: RankingDataset, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> None:
    rules = make_input_rules(prepared.settings)
    before, between, after = get_special_tokens(tokenizer, 2)
    form = PairFormat(before, between, after, True, max_length, rules)
    candidates, queries, documents = prepared.read_candidates(), prepared.read_queries(), prepared.read_documents()
    heads = _tokenize([*map(rules.prepare_query, queries["text"])], tokenizer, form, rules.truncation == "oldest")
    bodies = _tokenize([*map(rules.prepare_document, documents["text"])], tokenizer, form)
    query_codes = pd.Index(queries["query_id"]).get_indexer(candidates["query_id"])
    document_codes = pd.Index(documents["document_id"]).get_indexer(candidates["document_id"])
    rows = [slice(start, start + _PAIRS_PER_BLOCK) for start in range(0, len(candidates), _PAIRS_PER_BLOCK)]
    blocks = [join_pairs(heads, bodies, query_codes[own], document_codes[own], form) for own in rows]
    ends = np.cumsum([(candidates["split"] == split).sum() for split in SPLITS]).tolist()
    meta: dict[str, Any] = {
        "fingerprint": prepared.fingerprint,
        "max_length": max_length,
        "specials": [len(before), len(between), len(after)],
        "truncated": sum(block.n_truncated for block in blocks),
        "splits": dict(zip(SPLITS, zip([0, *ends], ends, strict=False), strict=True)),
    }
    with write_folder_with_checksums(folder) as draft:
        with (draft / "ids.npy").open("wb") as stream:
            _save_blocks(stream, [block.flat for block in blocks])
        np.save(draft / "offsets.npy", np.concatenate([[0], np.cumsum(np.concatenate([b.lengths for b in blocks]))]))
        np.save(draft / "starts.npy", np.concatenate([block.starts for block in blocks]).astype(np.int32))
        (draft / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _tokenize(
    texts: list[str], tokenizer: "PreTrainedTokenizerBase", form: PairFormat, keeps_end: bool = False
) -> TextTokens:
    # One more than fits, so that truncation is visible.
    encoded = encode_texts(tokenizer, texts, form.room + 1, "left" if keeps_end else "right")
    kept = [ids[-form.room :] if keeps_end else ids[: form.room] for ids in encoded]
    starts = np.cumsum([0, *map(len, kept[:-1])])
    return TextTokens(np.concatenate(kept), starts, np.array([*map(len, encoded)]))


def _save_blocks(stream: BinaryIO, blocks: Sequence[Ids]) -> None:
    """Write what `np.save` writes of the concatenated blocks, without a copy of them."""
    shape = (sum(map(len, blocks)),)
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for block in blocks:
        stream.write(block.astype(np.int32, copy=False).data)
