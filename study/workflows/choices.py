"""Lists what a study can choose by name: for `python -m study.run --list`, and as the page docs/reference/choices.md.

    python -m study.workflows.choices > docs/reference/choices.md

The names, lines, options and sources are those of the registries; defaults and meanings of the options are those of the
settings classes. The module loads neither torch nor ray.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from search_spaces.search_samplers import SAMPLERS
from search_spaces.study_type import DEFAULT_STUDY_TYPE, STUDY_TYPES, get_study_type
from study.config.sources import list_shipped
from study.config.study_class import get_study_class
from trainables.curriculum import DIFFICULTY_SCORES, PACING
from trainables.data.tasks import TASKS
from trainables.losses import LOSSES
from trainables.metrics import METRICS
from trainables.models.architectures import ARCHITECTURES
from trainables.smoothing import DISTRIBUTIONS, SCHEDULES
from trainables.specs.samplers import SAMPLERS as NEGATIVE_SAMPLERS
from trainables.utils.base_settings import Settings
from trainables.utils.cli import print_escaped
from trainables.utils.registry import Entry, Registry

_WIDTH = 120
"""Characters after which a line about options is wrapped, on the terminal and on the page."""


class Option(NamedTuple):
    """A setting that changes what an entry does."""

    key: str
    """Key in a study file."""
    default: str
    """Default as a study file has it, or "none"."""
    meaning: str


class Choice(NamedTuple):
    """A registry as a user sees it."""

    title: str
    keys: tuple[str, ...]
    """Keys in a study file that choose an entry."""
    registry: Registry[Any]
    table: str
    """Table of a study file that has the options."""
    note: str = ""
    """Sentence that says what the key has if it does not have the name of an entry."""

    @property
    def settings(self) -> type[Settings]:
        """Class of the table, in a study of the default trainable. Without fields if entries alone have settings."""
        found: Any = get_study_class(DEFAULT_STUDY_TYPE)
        for name in self.table.split("."):
            found = found.model_fields[name].annotation
        settings: type[Settings] = found if isinstance(found, type) else Settings
        return settings

    def format_keys(self, names: Iterable[str]) -> str:
        """Return the keys of these options, separated by commas."""
        return ", ".join(f"{self.table}.{name}" for name in names)

    def is_study_key(self, key: str) -> bool:
        """Return True if the key of an option is a field of the table, and not a setting of single entries."""
        return key.rpartition(".")[2] in self.settings.model_fields

    def list_options(self) -> list[Option]:
        """Return every option once, those of all entries last.

        Raises:
            KeyError: if the settings have no such option, or if it has no docstring.
        """
        docs, fields = dict[str, str](), dict[str, FieldInfo]()
        for settings in (*(entry.settings for entry in self.registry.entries if entry.settings), self.settings):
            docs |= read_field_docs(settings)
            fields |= settings.model_fields
        own = dict.fromkeys(name for entry in self.registry.entries for name in _list_own_options(entry))
        return [
            Option(f"{self.table}.{name}", _format_default(fields[name].default), docs[name])
            for name in (*own, *self.registry.options)
        ]


CHOICES = (
    Choice("tasks", ("task.name",), TASKS, "task"),
    Choice(
        "negative samplers", ("task.sampler.name", "task.evaluation_sampler.name"), NEGATIVE_SAMPLERS, "task.sampler"
    ),
    Choice("losses of rankers", ("variants",), LOSSES, "search"),
    Choice(
        "types of encoders",
        ("model.name",),
        ARCHITECTURES,
        "model",
        "A model of any of these types: `model_type` in its config.json.",
    ),
    Choice("smoothing distributions", ("variants",), DISTRIBUTIONS, "search"),
    Choice("schedules of the smoothing", ("variants", "search.schedule"), SCHEDULES, "search.schedule_settings"),
    Choice("pacing functions", ("curriculum.pacing",), PACING, "curriculum"),
    Choice("difficulty scores", ("curriculum.score",), DIFFICULTY_SCORES, "curriculum"),
    Choice("samplers of the search", ("search.sampler",), SAMPLERS, "search"),
    Choice("metrics", ("analysis.metric", "training.checkpoint"), METRICS, "analysis"),
)
"""All registries that a study file refers to."""


def _list_own_options(entry: Entry) -> tuple[str, ...]:
    return (*entry.options, *(entry.settings.model_fields if entry.settings else ()))


def read_field_docs(settings: type[Settings]) -> dict[str, str]:
    """Return the docstring below each field by name, without the final period.

    Docstrings are read from the source only here, since that would make every import of a settings class slower.

    Example:
        >>> from trainables.curriculum.curriculum_settings import CurriculumSettings
        >>> read_field_docs(CurriculumSettings)["score"]
        'Name of the difficulty score'
    """
    docs: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if (
            issubclass(base, Settings) and base.__bases__[0].__qualname__ != base.__qualname__
        ):  # else made by a function
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(definition, ast.ClassDef)
            for field, below in pairwise(definition.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        docs[name] = " ".join(text.split()).removesuffix(".")
    return docs


def print_choices() -> None:
    """Print the shipped studies and suites, the entries of all registries and the variants of all trainables."""
    print_escaped("studies: the first argument")
    for name, line in list_shipped().items():
        _print_item(name, line)
    print_escaped("\nsuites, several studies that run as one: the first argument")
    for name, line in list_shipped(suites=True).items():
        _print_item(name, line)
    for choice in CHOICES:
        print_escaped(f"\n{choice.title}: {', '.join(choice.keys)}")
        if choice.note:
            print_escaped(f"  {choice.note}")
        for entry in choice.registry.entries:
            _print_item(entry.name, entry.line)
            _print_item("", f"source: {entry.source}")
            if entry.module:
                _print_item("", f"plug-in: {entry.module}")
            if options := _list_own_options(entry):
                _print_item("", f"options: {choice.format_keys(options)}")
        if choice.registry.options:
            text = f"  options of all of them: {choice.format_keys(choice.registry.options)}"
            print_escaped(textwrap.fill(text, _WIDTH, subsequent_indent="    "))
        for option in choice.list_options():
            text = f"{option.key} = {option.default}: {option.meaning}"
            print_escaped(textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="      "))
    for name in STUDY_TYPES:
        print_escaped(f"\ntrainable {name}: variants")
        for label, row in get_study_type(name).variants.items():
            loss = f", loss {row.loss}" if row.loss else ""
            _print_item(label, f"distribution {row.distribution}, schedule {row.schedule}{loss}")


def format_page() -> str:
    """Return the page docs/reference/choices.md."""
    return "\n".join(_iter_page_lines())


def _iter_page_lines() -> Iterator[str]:
    yield "# What a study can choose by name"
    yield ""
    yield "From the registries, by `make docs`; `python -m study.run --list` prints the same."
    for choice in CHOICES:
        keys = ", ".join(f"`{key}`" for key in choice.keys)
        yield from ("", f"## {choice.title.capitalize()}", "", f"Set by {keys}. {choice.note}".rstrip(), "")
        yield from ("| name | | options | source |", "| --- | --- | --- | --- |")
        for entry in choice.registry.entries:
            options = _link_options(choice, _list_own_options(entry))
            yield f"| `{entry.name}` | {entry.line} | {options} | {entry.source} |"
        own = [option for option in choice.list_options() if not choice.is_study_key(option.key)]
        if own:
            yield from ("", "| option | default | |", "| --- | --- | --- |")
            yield from (f"| `{option.key}` | `{option.default}` | {option.meaning} |" for option in own)
        if choice.registry.options:
            yield from ("", f"Options of all of them: {_link_options(choice, choice.registry.options)}.")
    for name in STUDY_TYPES:
        rows = get_study_type(name).variants
        losses = dict.fromkeys(row.loss for row in rows.values())
        table: dict[tuple[str, str], dict[str | None, str]] = {}
        for label, row in rows.items():
            table.setdefault((row.distribution, row.schedule), {})[row.loss] = label
        header = ("distribution", "schedule", *(f"`{loss}`" if loss else "variant" for loss in losses))
        yield from ("", f"## Variants of {name}", "", f"| {' | '.join(header)} |", "| --- " * len(header) + "|")
        for kind, labels in table.items():
            cells = [*kind, *(labels.get(loss, "") for loss in losses)]
            yield f"| {' | '.join(f'`{cell}`' if cell else '' for cell in cells)} |"


def _link_options(choice: Choice, names: Iterable[str]) -> str:
    """Return the keys of options, each linked to its row in the page of all keys if it has one."""
    keys = [f"{choice.table}.{name}" for name in names]
    return ", ".join(f"[`{key}`](configuration.md#{key})" if choice.is_study_key(key) else f"`{key}`" for key in keys)


def _format_default(default: object) -> str:
    return "none" if default is None else json.dumps(default)


def _print_item(name: str, text: str) -> None:
    print_escaped(f"  {name:21} {text}")


if __name__ == "__main__":
    print_escaped(format_page(), flush=True)
