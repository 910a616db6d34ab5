r"""Task dialogues: retrieve the next utterance of a conversation (MANtIS, MSDialog, Ubuntu).

The format is that of MANtIS (Penha, Balan and Hauff 2019): lines `label \t utterance \t ... \t utterance \t response`.
If the first line of a file is the header `label \t domain \t utterances \t response`, its lines are
`label \t domain \t utterance \t ... \t utterance \t response`. The domain of a context without one is empty.
"""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

from trainables.data.tasks import SPLITS, IRDataset, Task, readers
from trainables.data.tasks.dataset_builder import DatasetBuilder
from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError

SEPARATORS = ("[UTTERANCE_SEP]", "[TURN_SEP]")
"""Separators after the odd (first, third, ...) and the even utterances of a context (Penha and Hauff 2021)."""
HEADER = ("label", "domain", "utterances", "response")
"""First line of a file with domains."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read train.tsv, dev.tsv and test.tsv in the folder `settings.path`.

    Each file may be plain or gzipped, with `.gz` appended to its name. The query is the context. Its relevant documents
    are the responses of label 1. Its candidates are the responses of label 0 in the same split, without scores. An id
    is built from the SHA-256 of the text, and a query's id also from its split.

    Raises:
        UserError: If a file is missing or not in this format, if a file has domains but not the header, if a context or
            a response is empty, or if two lines of one context have different domains.
    """
    builder = DatasetBuilder()
    domains, first_fields = set[str](), dict[Path, set[str]]()  # of files with and without the header
    for split, path in zip(SPLITS, _find_files(settings), strict=True):
        judged = set()
        negatives = []
        columns = tuple(name for name in HEADER if name != "domain")
        for location, line in readers.read_lines(path):
            label, *fields = line.split("\t")
            if location.line == 1 and label == HEADER[0]:
                columns = _check_header(location, (label, *fields))
                continue
            if not fields:
                header = f", or the header {', '.join(HEADER)}" if location.line == 1 else ""
                expected = f"{', '.join(columns)}, separated by tabs{header}"
                raise UserError(str(location), f"no tab in {readers.quote_text(line)}", expected)
            if label not in ("0", "1"):
                raise UserError(str(location), f"label {readers.quote_text(label)}", "0 or 1")
            if len(fields) < len(columns) - 1:
                expected = f"tab-separated {', '.join(columns[:-1])} and {columns[-1]}"
                raise UserError(str(location), f"fields: {1 + len(fields)}", expected)
            *fields, response = (field.strip() for field in fields)
            domain = fields.pop(0) if columns == HEADER else ""
            domains |= {domain} - {""}
            if columns != HEADER:
                first_fields.setdefault(path, set()).add(fields[0])
            utterances = [field for field in fields if field]
            if not utterances or not response:
                raise UserError(str(location), f"empty {'response' if utterances else 'context'}", "text")
            if len(utterances) < len(fields):
                builder.skipped["empty utterance"] += len(fields) - len(utterances)
            text = join_utterances(utterances)
            query, document = f"{split}-{_hash_text(text)}", _hash_text(response)
            builder.set_domain(location, query, domain)
            if label == "1":
                judged.add(query)
                builder.add_query(location, query, text)
                builder.add_document(location, document, response)
                builder.add_qrel(location, split, query, document)
            else:
                negatives.append((location, query, document, response))
        for location, query, document, response in negatives:
            if query in judged:
                builder.add_document(location, document, response)
                builder.add_candidate(location, split, query, document, math.nan)
            else:
                builder.skipped["candidate of a context without relevant response"] += 1
    for path, firsts in first_fields.items():
        if firsts <= domains:
            found = f"no header, but each line begins with a domain of another file, such as {min(firsts)!r}"
            raise UserError(str(readers.FileLocation(path, 1)), found, f"the header {', '.join(HEADER)}")
    return builder.build(settings)


def join_utterances(utterances: Sequence[str]) -> str:
    """Return the query of a context, which `TASK.split_utterances` splits again.

    Example:
        >>> join_utterances(["Hello?", "Hi."])
        'Hello? [UTTERANCE_SEP] Hi. [TURN_SEP]'
    """
    return " ".join(f"{text} {SEPARATORS[i % 2]}" for i, text in enumerate(utterances))


def get_source_version(settings: RankerTaskSettings) -> str:
    """Return a digest of the paths, sizes and modification times of the files."""
    return readers.hash_file_stats(_find_files(settings))


def _check_header(location: readers.FileLocation, fields: tuple[str, ...]) -> tuple[str, ...]:
    if fields != HEADER:
        raise UserError(
            str(location), f"header {readers.quote_text(', '.join(fields))}", f"tab-separated {', '.join(HEADER)}"
        )
    return fields


def _find_files(settings: RankerTaskSettings) -> list[Path]:
    return readers.find_files(settings, *(f"{split}.tsv" for split in SPLITS))


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


TASK = Task(read_dataset, get_source_version, "judged", SEPARATORS, is_dialogue=True)
