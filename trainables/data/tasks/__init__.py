"""Tasks: sources of queries, documents and relevance labels, each read by one module.

A task's module provides `TASK`. `TASKS` maps the task's name to that module.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Literal, NamedTuple

from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError

SPLITS = ("train", "dev", "test")

TASKS = {
    "beir": "trainables.data.tasks.beir",
    "dialogues": "trainables.data.tasks.dialogues",
    "docstrings": "trainables.data.tasks.docstrings",
    "hard-negatives": "trainables.data.tasks.hard_negatives",
    "irds": "trainables.data.tasks.irds",
    "msmarco": "trainables.data.tasks.msmarco",
    "qqp": "trainables.data.tasks.qqp",
}
"""Task name -> module that reads the task, imported on first use. The name of irds:ID is the part before the colon."""


class Qrel(NamedTuple):
    """Relevance label of a document for a query."""

    split: str
    query_id: str
    document_id: str
    grade: int = 1
    """The document is relevant if the grade is at least `RankerTaskSettings.relevant_from`."""


class Candidate(NamedTuple):
    """A non-relevant candidate that the source itself names.

    The candidates of a query are listed nearest first.
    """

    split: str
    query_id: str
    document_id: str
    score: float
    """Score from the source, NaN if the source has none."""


class IRDataset(NamedTuple):
    """All texts and relevance labels of a task, before candidates are sampled."""

    queries: dict[str, str]
    """Query id -> text."""
    documents: dict[str, str]
    """Document id -> text."""
    qrels: list[Qrel]
    candidates: list[Candidate]
    skipped: dict[str, int]
    """Reason for skipping something -> number of cases, as in "empty question" -> rows. Part of the fingerprint."""
    domains: dict[str, str] = {}  # noqa: RUF012
    """Query id -> domain, for the queries that have a domain."""
    repeated: int = 0
    """Number of entries that repeat an earlier query and were merged with it. Not part of the fingerprint."""


class Task(NamedTuple):
    """A task: the functions that read it and its defaults."""

    read_dataset: Callable[[RankerTaskSettings], IRDataset]
    get_source_version: Callable[[RankerTaskSettings], str]
    """Returns a text that is cheap to compute and changes whenever the result of `read_dataset` may change."""
    pool: Literal["judged", "all"] = "judged"
    """Default of `RankerTaskSettings.pool`."""
    added_tokens: tuple[str, ...] = ()
    """Special tokens that occur in the task's texts and that a model does not know."""
    is_dialogue: bool = False
    """True if a query is a list of utterances, each followed by one of `added_tokens`. A query that is too long for the
    model is cut at its beginning, its oldest part, unless `RankerTaskSettings.truncation` is "plain"."""
    allowed_overlap: float = 0.01
    """Default of `RankerTaskSettings.allowed_overlap`."""

    def split_utterances(self, query: str) -> list[str]:
        """Return the utterances of a query, or the whole query if the task has no dialogues.

        Example:
            >>> get_task("dialogues").split_utterances("Hello? [UTTERANCE_SEP] Hi. [TURN_SEP]")
            ['Hello?', 'Hi.']
            >>> get_task("qqp").split_utterances("Is this one question?")
            ['Is this one question?']
        """
        if not self.is_dialogue:
            return [query]
        *parts, _ = re.split("|".join(map(re.escape, self.added_tokens)), query)  # the text ends with a separator
        return [part.strip() for part in parts]


def get_task(name: str) -> Task:
    """Return the registered task of this name.

    Args:
        name: Name of a task, such as "msmarco", or "irds:ID" for a dataset of ir_datasets.

    Raises:
        UserError: If no task has this name.

    Example:
        >>> get_task("dialogues").is_dialogue
        True
    """
    kind, colon, dataset = name.partition(":")
    if kind not in TASKS or bool(colon) != (kind == "irds") or (colon and not dataset):
        known = ", ".join(f"{known}:ID" if known == "irds" else known for known in sorted(TASKS))
        raise UserError("task.name", repr(name), f"one of {known}")
    task: Task = import_module(TASKS[kind]).TASK
    return task
