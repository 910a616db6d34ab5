"""Task dialogues: the next utterance of a conversation (MANtIS, MSDialog, Ubuntu).

The format is MANtIS's (Penha, Balan and Hauff 2019): lines `label \\t utterance \\t ... \\t utterance \\t response`.
A file whose first line is the header `label \\t domain \\t utterances \\t response` has lines
`label \\t domain \\t utterance \\t ... \\t utterance \\t response`; a context of no domain has nothing there.
"""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

from trainables.data.tasks import SPLITS, Collection, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.collection import Collector
from trainables.specs.ranker import TaskSettings
from trainables.utils.errors import UserError

SEPARATORS = ("[UTTERANCE_SEP]", "[TURN_SEP]")
"""What follows the first, third, ... and the second, fourth, ... utterance of a context (Penha and Hauff 2021)."""
HEADER = ("label", "domain", "utterances", "response")
"""What the first line of a file that tells domains says."""


def read(settings: TaskSettings) -> Collection:
    """Reads train.tsv, dev.tsv and test.tsv in the folder `settings.path`, each as it is or with `.gz` behind.

    The query is the context. Responses of label 1 are its relevant documents, those of label 0 in the same split its
    candidates, without score. Ids are made of the text's SHA-256, a query's also of its split.

    Raises:
        UserError: a file is missing or not in this format; a context or a response is empty; two lines of one context
            have different domains.
    """
    collector = Collector()
    for split, path in zip(SPLITS, _files(settings), strict=True):
        judged = set()
        others = []
        columns = tuple(name for name in HEADER if name != "domain")
        for place, line in reading.lines(path):
            label, *fields = line.split("\t")
            if place.line == 1 and label == HEADER[0]:
                columns = _header(place, (label, *fields))
                continue
            if label not in ("0", "1"):
                raise UserError(str(place), f"label {reading.quoted(label)}", "0 or 1")
            if len(fields) < len(columns) - 1:
                expected = f"{', '.join(columns[:-1])} and {columns[-1]}, with tabs"
                raise UserError(str(place), f"fields: {1 + len(fields)}", expected)
            *fields, response = (field.strip() for field in fields)
            domain = fields.pop(0) if columns == HEADER else ""
            utterances = [field for field in fields if field]
            if not utterances or not response:
                raise UserError(str(place), f"empty {'response' if utterances else 'context'}", "text")
            if len(utterances) < len(fields):
                collector.skipped["empty utterance"] += len(fields) - len(utterances)
            text = context(utterances)
            query, document = f"{split}-{_identity(text)}", _identity(response)
            collector.domain(place, query, domain)
            if label == "1":
                judged.add(query)
                collector.query(place, query, text)
                collector.document(place, document, response)
                collector.judgement(place, split, query, document)
            else:
                others.append((place, query, document, response))
        for place, query, document, response in others:
            if query in judged:
                collector.document(place, document, response)
                collector.candidate(place, split, query, document, math.nan)
            else:
                collector.skipped["candidate of a context without relevant response"] += 1
    return collector.finish(settings)


def context(utterances: Sequence[str]) -> str:
    """The query's text; `TASK.utterances` takes it apart again."""
    return " ".join(f"{text} {SEPARATORS[i % 2]}" for i, text in enumerate(utterances))


def state(settings: TaskSettings) -> str:
    """Changes with a file."""
    return reading.state(_files(settings))


def _header(place: reading.Place, fields: tuple[str, ...]) -> tuple[str, ...]:
    if fields != HEADER:
        raise UserError(str(place), f"header {reading.quoted(', '.join(fields))}", f"{', '.join(HEADER)}, with tabs")
    return fields


def _files(settings: TaskSettings) -> list[Path]:
    return reading.files(settings, *(f"{split}.tsv" for split in SPLITS))


def _identity(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


TASK = Task(read, state, "judged", SEPARATORS, dialogue=True)
