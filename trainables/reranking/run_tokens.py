"""Token ids of the queries and documents of a run, in files that are mapped: only what is read is in memory.

Each text is tokenised once. A pair takes the tokens of its texts, cut by the rules of the model: by default with the
strategy "longest_first", as `CrossEncoder.predict` of sentence-transformers does.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.ranking_tokens import PairFormat, TextTokens
from trainables.exchange.input_rules import LIBRARY_RULES, InputRules
from trainables.reranking.texts import Text, TextSource
from trainables.text.tokens import encode_texts, get_special_tokens
from trainables.utils.checksums import verify_folder, write_folder_with_checksums
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TEXTS_PER_BLOCK, _CHARACTERS_PER_BLOCK = 1 << 16, 1 << 24
"""Texts and characters that are in memory at once."""
_TEXTS_PER_CALL = 512
"""Texts that are tokenised at once; the tokenizer's results take much more memory than the tokens."""


def read_pair_format(
    tokenizer: "PreTrainedTokenizerBase", max_length: int, rules: InputRules = LIBRARY_RULES
) -> PairFormat:
    """Return the format of a tokenizer's pairs, taken from an example.

    Raises:
        UserError: if the tokenizer is not a fast one, if its token types are of another kind, or if `max_length` leaves
            no room for a token of each text.
    """
    before, between, after = get_special_tokens(tokenizer, 2)
    types = np.asarray(tokenizer("a", "b").get("token_type_ids", [0]))
    form = PairFormat(before, between, after, bool(types.any()), max_length, rules)
    start = len(types) - len(after) - 1
    if form.has_token_types and types.tolist() != [0] * start + [1] * (len(types) - start):
        raise UserError(
            "MODEL", f"{type(tokenizer).__name__} gives token types {types.tolist()}", "type 1 from the document on"
        )
    if form.room <= (1 if rules.truncation in ("library", "longest_first") else max_length // 3):
        raise UserError("--max-length", max_length, "a length that leaves room for query and document")
    return form


def write_tokens(
    folder: Path,
    source: TextSource,
    ids: pa.StringArray,
    tokenizer: "PreTrainedTokenizerBase",
    room: int,
    on_progress: Callable[[int], None] = lambda done: None,
    keeps_end: bool = False,
) -> None:
    """Tokenise the texts with some ids, and write the tokens as a whole or not at all.

    No more than `room` tokens of a text are kept, its first ones, or its last ones with `keeps_end`.

    Raises:
        UserError: if an id has no text or two different texts, or as `source.read` does.
    """
    starts, lengths = np.full(len(ids), -1, dtype=np.int64), np.zeros(len(ids), dtype=np.int64)
    digests = np.zeros(len(ids), dtype=np.int64)
    n_found = n_tokens = 0
    with write_folder_with_checksums(folder) as draft:
        with (draft / "flat.bin").open("wb") as stream:
            for block in _split_into_blocks(source.read()):
                found = pc.index_in(pa.array([text.id for text in block], pa.string()), value_set=ids)
                codes = found.fill_null(-1).to_numpy(zero_copy_only=False).tolist()
                new = dict[int, str]()
                for code, text in zip(codes, block, strict=True):
                    if code < 0:
                        continue
                    digest = hash(text.text)  # of this process
                    if code not in new and starts[code] < 0:
                        new[code], digests[code] = text.text, digest
                    elif digests[code] != digest:
                        found_id = f"{text.id} has two different texts"
                        raise UserError(str(text.location), found_id, "one text for an id")
                for part in _split(list(new.items()), _TEXTS_PER_CALL):
                    encoded = encode_texts(tokenizer, [text for _, text in part], None)
                    for (code, _), tokens in zip(part, encoded, strict=True):
                        starts[code], lengths[code] = n_tokens, len(tokens)
                        kept = tokens[-room:] if keeps_end else tokens[:room]
                        n_tokens += len(kept)
                        kept.tofile(stream)
                n_found += len(new)
                on_progress(n_found)
        if n_found < len(ids):
            first = ids[int(np.argmin(starts))]
            found_text = f"no text for {len(ids) - n_found} of the run's {len(ids)}, first {first}"
            raise UserError(source.name, found_text, "every query and document of the run")
        np.save(draft / "starts.npy", starts)
        np.save(draft / "lengths.npy", lengths)


def open_tokens(folder: Path) -> TextTokens:
    """Map the tokens in a folder.

    Raises:
        DamagedError: if the folder is missing or its files are damaged.
    """
    verify_folder(folder)
    flat = folder / "flat.bin"
    tokens = np.memmap(flat, np.int32, "r") if flat.stat().st_size else np.empty(0, np.int32)
    return TextTokens(tokens, np.load(folder / "starts.npy"), np.load(folder / "lengths.npy"))


def _split_into_blocks(texts: Iterator[Text]) -> Iterator[list[Text]]:
    block, n_characters = list[Text](), 0
    for text in texts:
        block.append(text)
        n_characters += len(text.text)
        if len(block) == _TEXTS_PER_BLOCK or n_characters > _CHARACTERS_PER_BLOCK:
            yield block
            block, n_characters = [], 0
    if block:
        yield block


def _split(values: list[tuple[int, str]], size: int) -> Iterator[list[tuple[int, str]]]:
    return (values[start : start + size] for start in range(0, len(values), size))
