"""From a task's name to token arrays: read, sample candidates, store by fingerprint, tokenise.

A task is one module with two functions, found by its name in `TASKS`:
`read(settings) -> Collection` and `state(settings) -> str`, a cheap text that changes whenever `read`'s answer may.
"""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from trainables.errors import UserError
from trainables.specification import TaskSettings

SPLITS = ("train", "dev", "test")

TASKS = {"docstrings": "trainables.data.docstrings"}
"""Task name -> the module that reads it, imported when first used."""


class Relevant(NamedTuple):
    """A document that answers a query."""

    split: str
    query_id: str
    document_id: str


class Collection(NamedTuple):
    """A task's whole text, before candidates are sampled; every document belongs to the splits that judge it."""

    queries: dict[str, str]
    """Query id -> text."""
    documents: dict[str, str]
    """Document id -> text."""
    relevant: list[Relevant]


class Task(NamedTuple):
    """What a task's module provides."""

    read: Callable[[TaskSettings], Collection]
    state: Callable[[TaskSettings], str]


def task(name: str) -> Task:
    """The registered task of this name.

    Raises:
        UserError: no task has this name.
    """
    if name not in TASKS:
        raise UserError("task.name", repr(name), "one of " + ", ".join(sorted(TASKS)))
    module = import_module(TASKS[name])
    return Task(module.read, module.state)
