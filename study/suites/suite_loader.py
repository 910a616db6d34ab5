"""Reads a suite: a base and axes of overrides. The product of the axes are the studies of the suite."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from fnmatch import fnmatch
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from records.plan_file import STUDY_FILE
from records.suite_plan import PublishedResults
from study.config.loader import load_layered_study, load_study
from study.config.schema import Study
from study.config.sources import (
    COMMAND_LINE,
    expand_variables,
    is_suite_content,
    list_names,
    parse_override,
    read_toml,
)
from study.suites.file import SuiteExpectations, SuiteFile, parse_suite_file
from study.suites.published import read_published
from trainables.utils.base_settings import Settings
from trainables.utils.errors import UserError

_SHARED = (
    "trainable", "resources", "cache", "analysis.alpha", "analysis.correction", "training.threads",
)  # fmt: skip
"""Settings that all studies of a suite have in common, because they share the machines and are reported as one."""
_OWN_KEYS = ("name", "output.folder", "output.remote", "tracking.project")
"""Settings that a suite has itself, and from which it makes those of its studies."""
Layer = tuple[str, dict[str, Any]]
"""Name of a place for messages, and the settings that it gives as nested tables."""


class SuiteStudy(NamedTuple):
    """A study of a suite.

    Attributes:
        key: name of the study within the suite, also of its folder.
        labels: label of the study on each axis.
    """

    key: str
    labels: dict[str, str]
    study: Study


class Suite(NamedTuple):
    """Several studies that run as one.

    Attributes:
        folder: absolute folder of the results.
        columns: axis of the columns of the report.
        axes: labels of each axis, in the order of the file.
        planned: all studies of the file, in the order in which they run. In those that are not selected, environment
            variables that are not set are left as they are written.
    """

    name: str
    folder: Path
    columns: str
    axes: dict[str, list[str]]
    planned: tuple[SuiteStudy, ...]
    studies: tuple[SuiteStudy, ...]
    published: PublishedResults | None
    expected: SuiteExpectations = SuiteExpectations()


@contextmanager
def name_study(each: SuiteStudy) -> Iterator[None]:
    """Begin a message about bad input with the name of the study that it is about.

    Raises:
        UserError: the block raises it.
    """
    try:
        yield
    except UserError as error:
        error.args = ("\n".join(f"{each.study.name}: {line}" for line in str(error).split("\n")),)
        raise


def is_suite(source: str | None) -> bool:
    """Return whether a file, or a shipped file of this name, is a suite; a file that cannot be read is none."""
    try:
        return source is not None and is_suite_content(read_toml(source))
    except UserError:
        return False


def load_suite(source: str, overrides: Sequence[str] = (), selected: Sequence[str] = ()) -> Suite:
    """Read and validate a suite.

    Args:
        source: a suite file, or the name of a shipped suite.
        overrides: settings of the form "key.sub=value". `name`, `output.folder`, `output.remote` and `tracking.project`
            are those of the suite; all others replace settings of each study.
        selected: patterns of keys, such as "*qqp*", of the studies to run. If empty, all run.

    Raises:
        UserError: if something is wrong; the message has one line for each error.
    """
    own, others = _split_overrides(overrides)
    file = parse_suite_file(source, read_toml(source) | ({"name": own["name"]} if "name" in own else {}))
    columns = file.columns or ("task" if "task" in file.axes else next(iter(file.axes)))
    if columns not in file.axes:
        raise UserError(f"{source}: columns", repr(columns), f"an axis: {', '.join(file.axes)}")
    place, shared = f"{source}: study", deepcopy(file.study)
    own = _take_own_settings(place, shared) | own  # the command line comes first
    if "name" in file.study:
        raise UserError(f"{place}: name", repr(file.study["name"]), "none here; the suite has a key name of its own")
    common = [*_read_base(source, file), (place, shared)]
    folder = Path(os.path.expanduser(own.get("output.folder") or f"results/{file.name}")).absolute()
    planned, studies = list[SuiteStudy](), list[SuiteStudy]()
    combinations = {_make_key(labels): labels for labels in _list_combinations(source, file)}
    for key, labels in combinations.items():
        layers = [*common, *_list_axis_layers(source, file, labels)]
        layers.append((f"{source}: {key}", _make_study_settings(file.name, folder, own, key)))
        is_selected = not selected or any(fnmatch(key, pattern) for pattern in selected)
        planned.append(SuiteStudy(key, labels, load_layered_study(layers, others, is_draft=True)))
        if is_selected:
            studies.append(SuiteStudy(key, labels, load_layered_study(layers, others)))
    if not studies:
        raise UserError("--study", ", ".join(selected), f"one of {', '.join(combinations)}")
    _check_studies(source, planned)
    tasks = {each.study.task.model_dump_json() for each in planned}
    if len(tasks) < len(planned):  # two studies could have a run of the same id: that of the BM25 order
        planned, studies = map(_separate_projects, (planned, studies))
    axes = {axis: list(values) for axis, values in file.axes.items()}
    published = read_published(file.published, source) if file.published else None
    return Suite(file.name, folder, columns, axes, tuple(planned), tuple(studies), published, file.expected)


def _split_overrides(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of the command line that a suite has itself, by dotted key, and the other overrides."""
    own, others = dict[str, Any](), list[str]()
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key not in (*_OWN_KEYS, "output"):
            others.append(override)
            continue
        nested = parse_override(override)
        given = _take_own_settings(COMMAND_LINE, nested)
        if any(nested.values()):
            raise UserError(f"{COMMAND_LINE}: {key}", repr(nested), "a table of folder, remote")
        for name, value in given.items():
            if own.setdefault(name, value) != value:
                raise UserError(f"{COMMAND_LINE}: {name}", f"given twice, also as {own[name]!r}", "one value")
    return own, others


def _take_own_settings(place: str, data: dict[str, Any]) -> dict[str, Any]:
    """Remove from nested tables the settings that a suite has itself, and return them by dotted key."""
    own = dict[str, Any]()
    for key in _OWN_KEYS:
        section, _, name = key.rpartition(".")
        table = data.get(section, {}) if section else data
        if not isinstance(table, dict):
            raise UserError(f"{place}: {section}", repr(table), "a table of keys")
        if name in table:
            value = own[key] = table.pop(name)
            if isinstance(value, str) and value:
                own[key] = expand_variables(value, f"{place}: {key}")
            elif section and value is not None:
                raise UserError(f"{place}: {key}", repr(value), "text of at least one character")
    return own


def _make_study_settings(suite: str, folder: Path, own: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the settings of one study that follow from those of the suite."""
    output = {"folder": str(folder / key)}
    if remote := own.get("output.remote"):
        output["remote"] = f"{remote.rstrip('/')}/{key}"
    tracking = {"project": own.get("tracking.project") or suite, "group": key}
    return {"name": f"{suite}-{key}", "output": output, "tracking": tracking}


def _read_base(source: str, file: SuiteFile) -> list[Layer]:
    """Return the base without what is its own: its name, output, W&B project and expectations."""
    if file.base is None:
        return []
    own = Path(os.path.expanduser(source)).parent / os.path.expanduser(file.base)
    path = file.base if file.base in list_names() else str(own)
    data = read_toml(path)
    if is_suite_content(data):
        raise UserError(f"{source}: base", repr(file.base), "a study, not a suite")
    tracking = data.get("tracking")
    kept = {key: value for key, value in data.items() if key not in ("name", "output", "expected")}
    if isinstance(tracking, dict):
        kept["tracking"] = {key: value for key, value in tracking.items() if key not in ("project", "group")}
    return [(file.base, kept)]


def _list_axis_layers(source: str, file: SuiteFile, labels: Mapping[str, str]) -> list[Layer]:
    layers = [(f"{source}: axes.{axis}.{label}", file.axes[axis][label]) for axis, label in labels.items()]
    for place, data in layers:
        tracking = data.get("tracking")
        named = [str(key) for key in data if key in ("name", "output")]
        named += [f"tracking.{key}" for key in ("project", "group") if isinstance(tracking, dict) and key in tracking]
        if named:
            raise UserError(f"{place}: {named[0]}", "set for one label", "none; it is a setting of the whole suite")
    return layers


def _list_combinations(source: str, file: SuiteFile) -> Iterator[dict[str, str]]:
    """Yield the labels of each study by axis, in the order of the file."""
    for skipped in file.skip:
        for axis, label in skipped.items():
            if label not in file.axes.get(axis, {}):
                known = "; ".join(f"{name}: {', '.join(values)}" for name, values in file.axes.items())
                raise UserError(f"{source}: skip", f"{axis} = {label!r}", f"labels of the axes ({known})")
    keys = set[str]()
    for values in product(*file.axes.values()):
        labels = dict(zip(file.axes, values, strict=True))
        if any(skipped.items() <= labels.items() for skipped in file.skip):
            continue
        key = _make_key(labels)
        if not all(re.search("[A-Za-z0-9]", label) for label in labels.values()):
            raise UserError(f"{source}: axes", repr(list(labels.values())), "labels with an ASCII letter or digit")
        if key in keys:
            raise UserError(f"{source}: axes", f"two studies {key!r}", "labels that differ in letters or digits")
        keys.add(key)
        yield labels
    if not keys:
        raise UserError(f"{source}: skip", "all combinations", "tables that leave a study")


def _make_key(labels: Mapping[str, str]) -> str:
    return "-".join(re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-") for label in labels.values())


def _check_studies(source: str, studies: Sequence[SuiteStudy]) -> None:
    """Check that the studies can share the machines and be reported as one."""
    for each in studies:
        alike = next(other for other in studies if other.study.analysis.metric == each.study.analysis.metric)
        for name, first, which in (
            *((name, studies[0], "all studies") for name in _SHARED),
            ("analysis.margin", alike, "all studies of a metric"),
        ):
            own, expected = (attrgetter(name)(study) for study in (each.study, first.study))
            if own != expected:
                found = f"{_show(own)} in {each.key}, {_show(expected)} in {first.key}"
                raise UserError(f"{source}: {name}", found, f"the same in {which}")
        if each.study.search.hours is not None:
            expected = "none in a suite (its studies share the machines); search.gpu_hours counts those of one study"
            raise UserError(f"{source}: search.hours", each.study.search.hours, expected)


def _show(value: object) -> str:
    return repr(value.model_dump(exclude_defaults=True) if isinstance(value, Settings) else value)


def _separate_projects(studies: Sequence[SuiteStudy]) -> list[SuiteStudy]:
    """Return the studies with a W&B project of its own for each, since a project has a run of one id once."""
    separate = []
    for each in studies:
        tracking = each.study.tracking.model_copy(update={"project": f"{each.study.project}-{each.key}"})
        separate.append(each._replace(study=each.study.model_copy(update={"tracking": tracking})))
    return separate


def load_one_study(name: str, overrides: Sequence[str], key: str | None = None) -> Study:
    """Return the study of a command line, or the one of a suite that `--study` names.

    Args:
        name: file or name of a study or suite, or a folder of results.
        overrides: the overrides that it was run with; none are needed for a folder of results.
        key: key of the study in a suite.

    Raises:
        UserError: a suite without such a study, or a key without a suite.
    """
    folder = Path(os.path.expanduser(name))
    if folder.is_dir() and name not in list_names():
        return _load_recorded_study(folder.absolute() / (key or ""), overrides)
    if not is_suite(name):
        if key:
            raise UserError("--study", key, f"a suite; {name} is one study")
        return load_study(name, overrides)
    suite = load_suite(name, overrides, [key] if key else [])
    if len(suite.studies) != 1:
        keys = ", ".join(each.key for each in suite.studies)
        raise UserError("--study", key or "not given", f"one study of the suite: {keys}")
    return suite.studies[0].study


def _load_recorded_study(folder: Path, overrides: Sequence[str]) -> Study:
    """Return the study that has its results in a folder. Its cache is the one next to the folder, if there is one."""
    file = folder / STUDY_FILE
    if not file.is_file():
        expected = "a folder of results of one study; rerun a study to write the file, or give its name"
        raise UserError(str(folder), f"no {STUDY_FILE}", expected)
    places: dict[str, Any] = {"output": {"folder": str(folder)}}
    if cache := next((parent / ".cache" for parent in folder.parents[:2] if (parent / ".cache").is_dir()), None):
        places["cache"] = {"folder": str(cache)}
    return load_layered_study([(str(file), read_toml(str(file))), (str(folder), places)], overrides)
