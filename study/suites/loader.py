"""Reads a suite file: a base and axes of overrides, whose product are the studies of the suite."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError

from search_spaces.settings import PositiveNumber, expect
from study.config.loader import STUDIES_FOLDER, load_layered_study, read_toml
from study.config.schema import Study, Text
from study.suites.published import Published, read_published
from trainables.utils.errors import UserError, raise_if_any
from trainables.utils.settings import Settings

_SHARED = ("trainable", "resources", "caching")
"""Settings that all studies of a suite have in common, because their trials run as one pool."""
_RUN_PARTS = ("task", "model", "training")
"""Settings that decide, with a system's hyperparameters and the seed, what a run is."""
_TABLE = Annotated[dict[str, Any], expect("a table of keys of a study")]
Label = Annotated[str, Field(pattern=r"^[\w.+-][\w.+ -]{0,39}$")]


class SuiteExpectations(Settings):
    """Needs of a suite, for its readers; they change nothing."""

    data: Text | None = None
    """Data that the suite needs, and the environment variables that name them. If None, it needs no download."""
    gpu_hours: PositiveNumber | None = None
    """Rough estimate of the hours that all studies take on one GPU. If None, there is none."""


class SuiteFile(Settings):
    """Keys of a suite file."""

    name: Annotated[
        str, Field(pattern=r"^[a-z0-9-]{1,40}$"), expect("lower-case letters, digits and hyphens, at most 40")
    ]
    """Name of the suite, of its folder in `results`, and of its W&B project unless other keys say otherwise."""
    base: Text | None = None
    """Shipped study, or study file relative to the suite file, whose settings all studies have."""
    study: _TABLE = Field(default={})
    """Settings of all studies, which replace those of the base."""
    axes: Annotated[
        dict[Label, Annotated[dict[Label, _TABLE], Field(min_length=1)]],
        Field(min_length=1),
        expect("a table for each axis with a table for each of its values, e.g. [axes.task.QQP]"),
    ]
    """Axes, such as task or model: for each value a label and the settings that it stands for.

    There is a study for each combination. Settings of a later axis replace those of an earlier one."""
    skip: Annotated[tuple[dict[str, str], ...], expect("a list of labels by axis, e.g. [{task = 'QQP'}]")] = ()
    """Combinations that are left out: those that have all labels of one of these tables."""
    columns: Text | None = None
    """Axis whose values are the columns of the report's tables, and over which it averages.

    If None, `task` if there is such an axis, else the first one."""
    published: Text | None = None
    """Table of published results that the report shows beside the measured ones; see `study/studies/published`."""
    expected: SuiteExpectations = SuiteExpectations()
    """Needs of the suite."""


class SuiteStudy(NamedTuple):
    """A study of a suite.

    Attributes:
        key: name of the study within the suite, also of its folder.
        labels: label of the study on each axis.
        study: the study.
    """

    key: str
    labels: dict[str, str]
    study: Study


class Suite(NamedTuple):
    """Several studies that run as one.

    Attributes:
        name: name of the suite.
        folder: absolute folder of the results.
        columns: axis of the columns of the report.
        axes: labels of each axis, in the order of the file.
        keys: keys of all studies of the file, also of those that were not read.
        studies: the studies, in the order in which they run.
        published: published results, or None.
        expected: needs of the suite.
    """

    name: str
    folder: Path
    columns: str
    axes: dict[str, list[str]]
    keys: tuple[str, ...]
    studies: tuple[SuiteStudy, ...]
    published: Published | None
    expected: SuiteExpectations = SuiteExpectations()


def is_suite(source: str | None) -> bool:
    """Return whether a file, or a shipped file of this name, is a suite; a file that cannot be read is none."""
    try:
        return source is not None and "axes" in read_toml(source)
    except UserError:
        return False


def load_suite(source: str, overrides: Sequence[str] = (), selected: Sequence[str] = ()) -> Suite:
    """Read and validate a suite.

    Args:
        source: a suite file, or the name of a shipped suite.
        overrides: settings of the form "key.sub=value". `name` is that of the suite and `output.folder` its folder; all
            others replace settings of each study.
        selected: patterns of keys, such as "*qqp*", of the studies to read. If empty, all are read.

    Raises:
        UserError: if something is wrong; the message has one line for each error.

    Example:
        >>> suite = load_suite("wsls-table-2", ["seeds=[1]"], ["docstrings"])  # doctest: +SKIP
        >>> [each.key for each in suite.studies]  # doctest: +SKIP
        ['docstrings']
    """
    own = [override for override in overrides if re.match(r"\s*(name|output\.folder|output\.remote)\s*=", override)]
    named = {key.strip(): value.strip() for key, _, value in (override.partition("=") for override in own)}
    data = read_toml(source)
    file = _validate(source, data | ({"name": named["name"]} if "name" in named else {}))
    columns = file.columns or ("task" if "task" in file.axes else next(iter(file.axes)))
    if columns not in file.axes:
        raise UserError(f"{source}: columns", repr(columns), f"an axis: {', '.join(file.axes)}")
    output = {**_read_output(source, file), **{key.removeprefix("output."): value for key, value in named.items()}}
    folder = Path(os.path.expanduser(output.get("folder", f"results/{file.name}"))).absolute()
    base = [] if file.base is None else [(file.base, read_toml(_locate_base(source, file.base)))]
    others = [override for override in overrides if override not in own]
    studies, combinations = [], {_make_key(labels): labels for labels in _list_combinations(source, file)}
    for key, labels in combinations.items():
        if not selected or any(fnmatch(key, pattern) for pattern in selected):
            layers = [
                *base,
                (f"{source}: study", file.study),
                *((f"{source}: axes.{axis}.{label}", file.axes[axis][label]) for axis, label in labels.items()),
                (f"{source}: {key}", _make_own_settings(file, folder, output.get("remote"), key)),
            ]
            studies.append(SuiteStudy(key, labels, load_layered_study(layers, others)))
    if not studies:
        raise UserError("--study", ", ".join(selected), f"one of {', '.join(combinations)}")
    _check_studies(source, studies)
    axes = {axis: list(values) for axis, values in file.axes.items()}
    published = read_published(file.published, f"{source}: published") if file.published else None
    separate = _separate_projects(studies)
    return Suite(file.name, folder, columns, axes, tuple(combinations), separate, published, file.expected)


def _validate(source: str, data: Mapping[str, Any]) -> SuiteFile:
    try:
        return SuiteFile.model_validate(data)
    except ValidationError as error:
        known = ", ".join(SuiteFile.model_fields)
        mistakes = dict[str, UserError]()
        for details in error.errors():
            key = ".".join(str(part) for part in details["loc"] if part != "[key]")
            expected = f"one of {known}" if details["type"] == "extra_forbidden" else details["msg"]
            expected = "a value" if details["type"] == "missing" else expected.removeprefix("Value error, ")
            shown = "missing" if details["type"] == "missing" else repr(details["input"])[:80]
            mistakes.setdefault(key, UserError(f"{source}: {key}", shown, expected))
        raise_if_any([*mistakes.values()])
        raise


def _locate_base(source: str, base: str) -> str:
    """Return the shipped study of this name, or the path of the base relative to the suite file."""
    if (STUDIES_FOLDER / f"{base}.toml").is_file():
        return base
    return str(Path(os.path.expanduser(source)).parent / os.path.expanduser(base))


def _read_output(source: str, file: SuiteFile) -> dict[str, str]:
    """Return the folder and the place of the remote records, as far as the suite file names them."""
    output = file.study.get("output", {})
    named = {key: value for key, value in output.items() if value is not None} if isinstance(output, dict) else {}
    for key, value in named.items():
        if not (isinstance(value, str) and value):
            raise UserError(f"{source}: study.output.{key}", repr(value), "text of at least one character")
    return named


def _list_combinations(source: str, file: SuiteFile) -> Iterator[dict[str, str]]:
    """Yield the labels of each study by axis, in the order of the file.

    Raises:
        UserError: if a label of `skip` is unknown, or two studies would have the same key or none.
    """
    for skipped in file.skip:
        for axis, label in skipped.items():
            if label not in file.axes.get(axis, {}):
                known = "; ".join(f"{name}: {', '.join(values)}" for name, values in file.axes.items())
                raise UserError(f"{source}: skip", f"{axis} = {label!r}", f"labels of the axes ({known})")
    keys = set[str]()
    for values in product(*file.axes.values()):
        labels = dict(zip(file.axes, values, strict=True))
        key = _make_key(labels)
        if not all(re.search("[A-Za-z0-9]", label) for label in labels.values()):
            raise UserError(f"{source}: axes", repr(list(labels.values())), "labels with an ASCII letter or digit")
        if key in keys:
            raise UserError(f"{source}: axes", f"two studies {key!r}", "labels that differ in letters or digits")
        keys.add(key)
        if not any(skipped.items() <= labels.items() for skipped in file.skip):
            yield labels


def _make_key(labels: Mapping[str, str]) -> str:
    return "-".join(re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-") for label in labels.values())


def _make_own_settings(file: SuiteFile, folder: Path, remote: str | None, key: str) -> dict[str, Any]:
    """Return the settings that the suite decides for each of its studies."""
    tracking = file.study.get("tracking", {})
    project = tracking.get("project", file.name) if isinstance(tracking, dict) else file.name
    return {
        "name": f"{file.name}-{key}",
        "output": {"folder": str(folder / key), **({"remote": f"{remote.rstrip('/')}/{key}"} if remote else {})},
        "tracking": {"project": project, "group": key},
    }


def _check_studies(source: str, studies: Sequence[SuiteStudy]) -> None:
    """Check that the studies can run as one pool and be reported as one.

    Raises:
        UserError: a study differs in a setting that all must have in common, or has a budget in hours, which would
            count the time of the others.
    """
    first = studies[0]
    for each in studies:
        for name in _SHARED:
            own, expected = getattr(each.study, name), getattr(first.study, name)
            if own != expected:
                found = f"{_show(own)} in {each.key}, {_show(expected)} in {first.key}"
                raise UserError(f"{source}: {'cache' if name == 'caching' else name}", found, "the same in all studies")
        for name in ("alpha", "correction"):
            if getattr(each.study.analysis, name) != getattr(first.study.analysis, name):
                raise UserError(
                    f"{source}: analysis.{name}", f"not that of {first.key} in {each.key}", "the same in all"
                )
        if each.study.training.threads != first.study.training.threads:
            found = f"{each.study.training.threads} in {each.key}, {first.study.training.threads} in {first.key}"
            raise UserError(f"{source}: training.threads", found, "the same in all studies")
        if each.study.search.hours is not None:
            expected = "none in a suite, whose studies share the machines; search.gpu_hours counts those of one study"
            raise UserError(f"{source}: search.hours", each.study.search.hours, expected)


def _show(value: object) -> str:
    return repr(value.model_dump(exclude_defaults=True) if isinstance(value, Settings) else value)


def _separate_projects(studies: Sequence[SuiteStudy]) -> tuple[SuiteStudy, ...]:
    """Return the studies, each with a W&B project of its own if two of them could have the same runs.

    The id of a run is that of its specification, and a project has a run of one id once.
    """
    parts = [tuple(getattr(each.study, name).model_dump_json() for name in _RUN_PARTS) for each in studies]
    if len(set(parts)) == len(parts):
        return tuple(studies)
    separate = []
    for each in studies:
        project = f"{each.study.project}-{each.key}"
        tracking = each.study.tracking.model_copy(update={"project": project})
        separate.append(each._replace(study=each.study.model_copy(update={"tracking": tracking})))
    return tuple(separate)
