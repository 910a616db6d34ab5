"""From a task's name to token arrays: read, sample candidates, store by fingerprint, tokenise.

A task is one module that provides `TASK`, found by its name in `TASKS`.
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
"""Task name (of irds:ID the part before the colon) -> the module that reads it, imported when first used."""


class Qrel(NamedTuple):
    """How far a document answers a query; it is relevant from grade `TaskSettings.relevant_from` on."""

    split: str
    query_id: str
    document_id: str
    grade: int = 1


class Candidate(NamedTuple):
    """A candidate, not judged relevant, that the source itself names; nearest first."""

    split: str
    query_id: str
    document_id: str
    score: float
    """The source's score, NaN where it tells none."""


class IRDataset(NamedTuple):
    """A task's whole text, before candidates are sampled."""

    queries: dict[str, str]
    """Query id -> text."""
    documents: dict[str, str]
    """Document id -> text."""
    qrels: list[Qrel]
    candidates: list[Candidate]
    skipped: dict[str, int]
    """What was left out, as a person would expect, and how often: "empty question" -> rows."""
    domains: dict[str, str] = {}  # noqa: RUF012
    """Query id -> domain, of the queries that have one."""
    repeated: int = 0
    """Entries that name a query which was there before, and are merged with it; no part of the text."""


class Task(NamedTuple):
    """What a task's module provides."""

    read_dataset: Callable[[RankerTaskSettings], IRDataset]
    get_source_version: Callable[[RankerTaskSettings], str]
    """A cheap text that changes whenever `read`'s answer may."""
    pool: Literal["judged", "all"] = "judged"
    """What `TaskSettings.pool` is where it is none."""
    added_tokens: tuple[str, ...] = ()
    """Special tokens that its texts contain and a model does not know."""
    is_dialogue: bool = False
    """Whether a query is utterances, each followed by one of `added_tokens`. The beginning of such a query, its oldest
    part, is what a model's maximal length cuts."""
    allowed_overlap: float = 0.01
    """What `TaskSettings.allowed_overlap` is where it is none."""

    def split_utterances(self, query: str) -> list[str]:
        """The utterances of a query's text; a query that is no dialogue is one."""
        if not self.is_dialogue:
            return [query]
        *parts, _ = re.split("|".join(map(re.escape, self.added_tokens)), query)  # nothing follows the last
        return [part.strip() for part in parts]


def get_task(name: str) -> Task:
    """The registered task of this name.

    Raises:
        UserError: no task has this name.
    """
    kind, colon, dataset = name.partition(":")
    if kind not in TASKS or bool(colon) != (kind == "irds") or (colon and not dataset):
        known = ", ".join(f"{known}:ID" if known == "irds" else known for known in sorted(TASKS))
        raise UserError("task.name", repr(name), f"one of {known}")
    found: Task = import_module(TASKS[kind]).TASK
    return found
