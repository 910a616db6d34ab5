r"""Task dialogues: retrieve the next utterance of a conversation (MANtIS, MSDialog, Ubuntu).

The format is that of MANtIS (Penha, Balan and Hauff 2019): lines `label \t utterance \t ... \t utterance \t response`.
If the first line of a file is the header `label \t domain \t utterances \t response`, its lines are
`label \t domain \t utterance \t ... \t utterance \t response`. The domain of a context without one is empty.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trainables.data.files import readers
from trainables.data.tasks import SPLITS, IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder, hash_text
from trainables.data.tasks.splits import choose_split
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.text_files import FileLocation, quote_text, read_lines
from trainables.text.words import compose_text
from trainables.utils.errors import UserError

SEPARATORS = ("[UTTERANCE_SEP]", "[TURN_SEP]")
"""Separators after the odd (first, third, ...) and the even utterances of a context (Penha and Hauff 2021)."""
HEADER = ("label", "domain", "utterances", "response")
"""First line of a file with domains."""


class _ResponseRow(NamedTuple):
    location: FileLocation
    is_relevant: bool
    domain: str | None
    """None in a file without the header."""
    first_field: str
    """The first utterance, which may be empty."""
    context: str
    response: str
    n_empty: int
    """Number of empty utterances that were left out."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read train.tsv, dev.tsv and test.tsv in the folder `settings.path`.

    Each file may be plain or gzipped, with `.gz` appended to its name. The query is the context. Its relevant documents
    are the responses of label 1. Its candidates are the responses of label 0 in the same split, without scores. An id
    is built from the SHA-256 of the text, and a query's id also from the name of its file. Without dev.tsv,
    `settings.dev_share` says which part of the contexts of train.tsv is the dev split.

    Raises:
        UserError: If a file is missing or not in this format, if a file has domains but not the header, if a context or
            a response is empty, if two lines of one context have different domains, or if there is both dev.tsv and
            `settings.dev_share`.
    """
    builder = DatasetBuilder(dev_share=settings.dev_share)
    domains, first_fields = set[str](), dict[Path, set[str]]()  # of files with and without the header
    for split, path in _find_files(settings).items():
        judged = set()
        negatives = []
        for row in _read_rows(path):
            domains |= {row.domain or ""} - {""}
            if row.domain is None:
                first_fields.setdefault(path, set()).add(row.first_field)
            if row.n_empty:
                builder.skipped["empty utterance"] += row.n_empty
            query, document = _make_query_id(split, row.context), hash_text(row.response)
            builder.set_domain(row.location, query, row.domain or "")
            if row.is_relevant:
                judged.add(query)
                builder.add_query(row.location, query, row.context)
                builder.add_document(row.location, document, row.response)
                builder.add_qrel(row.location, split, query, document)
            else:
                negatives.append((row.location, query, document, row.response))
        for location, query, document, response in negatives:
            if query in judged:
                builder.add_document(location, document, response)
                builder.add_candidate(location, split, query, document, math.nan)
            else:
                builder.skipped["candidate of a context without relevant response"] += 1
    for path, firsts in first_fields.items():
        if firsts <= domains:
            found = f"no header, but each line begins with a domain of another file, such as {min(firsts)!r}"
            raise UserError(str(FileLocation(path, 1)), found, f"the header {', '.join(HEADER)}")
    return builder.build(settings)


def count_candidates(settings: RankerTaskSettings) -> dict[str, Counter[int]]:
    """Return split -> number of different responses of a context -> number of contexts.

    In training, relevant responses do not count. Contexts without a line of label 1 are left out.

    Raises:
        UserError: If a file is missing or not in this format.
    """
    counts = {split: Counter[int]() for split in SPLITS}
    for split, path in _find_files(settings).items():
        responses, relevant = dict[str, set[int]](), dict[str, set[int]]()
        for row in _read_rows(path):
            context, response = compose_text(row.context), hash(compose_text(row.response))
            responses.setdefault(context, set()).add(response)
            if row.is_relevant:
                relevant.setdefault(context, set()).add(response)
        for context, own in relevant.items():
            own_split = choose_split(split, _make_query_id(split, context), settings.dev_share)
            counts[own_split][len(responses[context] - (own if own_split == "train" else set()))] += 1
    return counts


def _read_rows(path: Path) -> Iterator[_ResponseRow]:
    columns = tuple(name for name in HEADER if name != "domain")
    for location, line in read_lines(path):
        label, *fields = line.split("\t")
        if location.line == 1 and label == HEADER[0]:
            columns = _check_header(location, (label, *fields))
            continue
        if not fields:
            header = f", or the header {', '.join(HEADER)}" if location.line == 1 else ""
            expected = f"{', '.join(columns)}, separated by tabs{header}"
            raise UserError(str(location), f"no tab in {quote_text(line)}", expected)
        if label not in ("0", "1"):
            raise UserError(str(location), f"label {quote_text(label)}", "0 or 1")
        if len(fields) < len(columns) - 1:
            expected = f"tab-separated {', '.join(columns[:-1])} and {columns[-1]}"
            raise UserError(str(location), f"fields: {1 + len(fields)}", expected)
        *fields, response = (field.strip() for field in fields)
        domain = fields.pop(0) if columns == HEADER else None
        utterances = [field for field in fields if field]
        if not utterances or not response:
            raise UserError(str(location), f"empty {'response' if utterances else 'context'}", "text")
        n_empty = len(fields) - len(utterances)
        yield _ResponseRow(location, label == "1", domain, fields[0], join_utterances(utterances), response, n_empty)


def join_utterances(utterances: Sequence[str]) -> str:
    """Return the query of a context, which `TASK.split_utterances` splits again.

    Example:
        >>> join_utterances(["Hello?", "Hi."])
        'Hello? [UTTERANCE_SEP] Hi. [TURN_SEP]'
    """
    return " ".join(f"{text} {SEPARATORS[i % 2]}" for i, text in enumerate(utterances))


def _check_header(location: FileLocation, fields: tuple[str, ...]) -> tuple[str, ...]:
    if fields != HEADER:
        raise UserError(str(location), f"header {quote_text(', '.join(fields))}", f"tab-separated {', '.join(HEADER)}")
    return fields


def _make_query_id(split: str, context: str) -> str:
    return f"{split}-{hash_text(context)}"


def _find_files(settings: RankerTaskSettings) -> dict[str, Path]:
    paths = readers.find_files(settings, *(f"{split}.tsv" for split in SPLITS), dev="dev.tsv")
    splits = [split for split in SPLITS if split != "dev" or settings.dev_share is None]
    return dict(zip(splits, paths, strict=True))


TASK = Task(
    read_dataset,
    readers.make_source_version(_find_files),
    "judged",
    SEPARATORS,
    is_dialogue=True,
    reads_dev_share=True,
    count_candidates=count_candidates,
)
