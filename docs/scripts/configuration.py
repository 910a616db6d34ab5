"""Writes the page of all keys of a study file, from the settings classes and their docstrings.

python -m docs.scripts.configuration > docs/reference/configuration.md
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, BeforeValidator, WrapValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from docs.scripts.study_keys import StudyKey, list_study_keys, list_value_types
from search_spaces.study_type import DEFAULT_STUDY_TYPE, STUDY_TYPES, get_study_type
from study.workflows.choices import CHOICES
from trainables.utils.base_settings import MAX_COUNT, Settings
from trainables.utils.cli import print_escaped
from trainables.utils.registry import PLUGINS_HINT

_INTRODUCTION = """\
# Configuration

Every key of a study file, written from the code by `make docs`. Only `name` has no default.

A study file is [TOML](https://toml.io). A heading such as `[task.sampler]` is a table of the file; the keys of
[the first section](#top) come before all tables. A cross-encoder study sets `training.batch_size` or
`training.negatives`: the defaults 32 and 9 do not fit together.

On the command line, `KEY=VALUE` replaces a value: `training.epochs=3`, `seeds='[1, 2]'`. There `task.path=none` unsets
a key; in a file, leave it out. `${NAME}` in a value is the environment variable `NAME`.

## Run ids

The id of a run is a hash of its specification, and a run with a record is not trained again. The last column says what
a key does to the ids:

| Run id | Meaning |
| --- | --- |
| yes | Another value gives other runs, which are trained again. |
| content | The id depends on the content of the file, folder, model or modules, not on their place. |
| which runs | The key decides which configurations and seeds are run. Runs of both values keep their id. |
| no | The same runs, with the same ids. |
| - | The key has one possible value. |

Ids also depend on device, instruction set and versions, see
[reproducibility](../background/reproducibility.md#the-id-of-a-run).
"""
_ONE_TRAINABLE = """\
Only a study with `trainable = {names}` has this table.
"""
_NO_CURRICULA = """\
Only a study with `trainable = {names}` has curricula; elsewhere `curriculum.variants` is empty.
"""
_TABLES = ("task", "model", "training", "search", "analysis", "resources", "tracking")
"""Tables with keys that docstrings name."""
_RUN_IDS = {
    "content": r"plugins|task\.(path|evaluation_path|candidates_run|teacher)"
    r"|.*\.encoder|model\.name|curriculum\.vectors",
    "no": r"name|evaluate|task\.allowed_overlap|confirm\.group_size|resources\.(?!gpu).*"
    r"|(tracking|trial|output|cache|expected|analysis)\..*",
    "which runs": r"seeds|variants|curriculum\.(variants|compare|pacing|score|delta|duration)|(search|confirm)\..*",
}
"""Effect of keys on the ids of runs -> the keys with that effect. The ids depend on all other keys."""
_Row = tuple[str, ...]
"""Cells of a table."""


class _Section(NamedTuple):
    """A table of a study file, with its rows by trainable."""

    name: str
    rows: dict[str, dict[str, _Row]]
    """Trainable -> name of a key -> its row."""
    summaries: dict[str, str]
    """Trainable -> first sentence of the docstring of the table's class."""


def format_page() -> str:
    """Return the page docs/reference/configuration.md."""
    return "\n".join([_INTRODUCTION, *_iter_lines(_collect_sections())])


def describe_type(key: StudyKey) -> str:
    """Describe the values of a key in the words of a user, as Markdown.

    Example:
        >>> keys = {key.name: key for key in list_study_keys("cross-encoder")}
        >>> describe_type(keys["training.dropout"]), describe_type(keys["model.num_layers"])
        ('number from 0 to below 1', 'whole number from 1')
        >>> describe_type(keys["training.unit"]), describe_type(keys["search.epsilon"])[:28]
        ('`"query"` or `"pair"`', 'list of increasing numbers, ')
    """
    if key.name == "trainable":
        return _format_names(STUDY_TYPES)
    kind, *others = list_value_types(key.annotation)
    text = (others and _find_expectation(key.metadata)) or _describe(kind, key.metadata).replace(PLUGINS_HINT, "")
    text = re.sub(r" \(there is no .*?\)", "", text)
    if key.default not in ((), {}, None):
        text = re.sub(r",? e\.g\. \[.*", "", text)  # the default is an example
    chosen = [section for section in CHOICES if key.name in section.keys]
    links = ", ".join(f"[{section.title}](choices.md#{section.title.replace(' ', '-')})" for section in chosen)
    if links and (listed := re.match("(list of |one of )", text)):
        return listed[0] + (links if len(chosen) == 1 else f"names, see {links}")
    return f"{text.partition(':')[0]}; see {links}" if links else text


def find_answer(key: StudyKey, trainable: str) -> str:
    """Return what the key does to the ids of runs."""
    if key.name != "trainable" and get_origin(key.annotation) is Literal and len(get_args(key.annotation)) == 1:
        return "-"
    if (key.name, trainable) == ("analysis.metric", "cross-encoder"):
        return "which runs"  # the search goes by it; sentence encoders have one dev set for all metrics
    return next((answer for answer, names in _RUN_IDS.items() if re.fullmatch(names, key.name)), "yes")


def _collect_sections() -> list[_Section]:
    sections: dict[str, _Section] = {}
    for trainable in STUDY_TYPES:
        for key in list_study_keys(trainable):
            if key.section == "curriculum" and not get_study_type(trainable).has_curricula:
                continue
            section = sections.setdefault(key.section, _Section(key.section, {}, {}))
            section.rows.setdefault(trainable, {})[key.name] = _make_row(key, find_answer(key, trainable))
            section.summaries[trainable] = (key.owner.__doc__ or "").partition("\n")[0]
    return list(sections.values())


def _make_row(key: StudyKey, answer: str) -> _Row:
    name = f"`{key.name}`{{#{key.name}}}"
    default = DEFAULT_STUDY_TYPE if key.name == "trainable" else key.default
    return name, describe_type(key), _format_default(default), _mark_keys(_escape(key.meaning)), answer


def _iter_lines(sections: Iterable[_Section]) -> Iterator[str]:
    for section in sections:
        title, anchor = (f"`[{section.name}]`", section.name) if section.name else ("Before all tables", "top")
        yield from (f"## {title} {{#{anchor}}}", "")
        if len(section.rows) < len(STUDY_TYPES):
            note = _NO_CURRICULA if section.name == "curriculum" else _ONE_TRAINABLE
            yield note.format(names=" or ".join(map(json.dumps, section.rows)))
        first, *others = section.rows.values()
        common = {name for name, row in first.items() if all(rows.get(name) == row for rows in others)}
        if section.name and all(common == {*rows} for rows in section.rows.values()):
            yield from (f"{next(iter(section.summaries.values()))}", "")
        parts = [("For both trainables", "both", [first[name] for name in first if name in common])]
        for trainable, rows in section.rows.items():
            own_rows = [row for name, row in rows.items() if name not in common]
            parts.append((f"For `{trainable}`", trainable, own_rows))
        parts = [part for part in parts if part[2]]
        for title, ending, part_rows in parts:
            if len(parts) > 1:
                yield from (f"### {title} {{#{anchor}-{ending}}}", "")
            yield from _iter_table(("Key", "Values", "Default", "Meaning", "Run id"), part_rows)
            yield ""


def _iter_table(header: _Row, rows: Iterable[_Row]) -> Iterator[str]:
    for cells in (header, ("---",) * len(header), *rows):
        yield f"| {' | '.join(cells)} |"


def _describe(annotation: Any, metadata: Iterable[Any]) -> str:
    """Describe a type that is not optional."""
    if get_origin(annotation) is Annotated:
        annotation, *inner = get_args(annotation)
        metadata = [
            part for own in (*inner, *metadata) for part in (own.metadata if isinstance(own, FieldInfo) else [own])
        ]
    constraints = list(metadata)
    if annotation is bool:
        return "`true` or `false`"
    if annotation is int:
        return f"whole number{_describe_range(constraints)}"
    if annotation is float:
        return f"number{_describe_range(constraints)}"
    if get_origin(annotation) is Literal:
        return _format_names(get_args(annotation))
    if get_origin(annotation) is dict:
        return f"table with a {_describe(get_args(annotation)[1], ())} for each name"
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return f"tables with the keys {', '.join(f'`{name}`' for name in annotation.model_fields)}"
    if expectation := _find_expectation(constraints):
        return _escape(expectation)
    if get_origin(annotation) is tuple:
        return f"list of {_describe(get_args(annotation)[0], ())}"
    return "text"


def _describe_range(constraints: Sequence[Any]) -> str:
    """Describe the range of a number, such as " from 0 to 1"."""
    lowest = next((f"from {limit.ge}" for limit in constraints if isinstance(limit, Ge)), "")
    lowest = next((f"above {limit.gt}" for limit in constraints if isinstance(limit, Gt)), lowest)
    highest = next((f"at most {limit.le}" for limit in constraints if isinstance(limit, Le)), "")
    highest = next((f"below {limit.lt}" for limit in constraints if isinstance(limit, Lt)), highest)
    if highest in (f"at most {MAX_COUNT}", f"below {math.inf}", ""):
        return f" {lowest}" if lowest else ""
    if lowest.startswith("from"):
        return f" {lowest} to {highest.removeprefix('at most ')}"
    return f" {lowest} and {highest}" if lowest else f" {highest}"


def _find_expectation(constraints: Iterable[Any]) -> str | None:
    """Return what a validator says that it expects, or None if none says so; the outermost validator decides."""

    def refuse(value: Any) -> Any:
        raise ValueError

    for constraint in reversed(list(constraints)):
        check: Any = getattr(constraint, "func", None)
        try:
            if isinstance(constraint, WrapValidator):
                check(None, refuse)
            elif isinstance(constraint, AfterValidator | BeforeValidator):
                check("?")
        except ValueError as error:
            if str(error):
                return str(error).removeprefix("a ").replace("text of at least one character", "text")
    return None


def _format_names(names: Iterable[object]) -> str:
    """Return names as code, the last two joined by "or"."""
    *head, last = (f"`{json.dumps(name)}`" for name in names)
    return f"{', '.join(head)} or {last}" if head else last


def _format_default(default: Any) -> str:
    """Return a default as a study file has it."""
    if default is PydanticUndefined:
        return "required"
    return "none" if default is None else f"`{json.dumps(default)}`"


def _escape(text: str) -> str:
    """Escape what Markdown or HTML would take for markup in a cell."""
    return text.replace("<", "&lt;").replace("|", "\\|")


def _mark_keys(text: str) -> str:
    """Return a text with the keys that it names written as code."""
    return re.sub(rf"(?<![`\w.])(?:{'|'.join(_TABLES)})(?:\.[a-z_]+)+", r"`\g<0>`", text)


if __name__ == "__main__":
    print_escaped(format_page(), flush=True)
