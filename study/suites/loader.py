"""Reads a suite: a base and axes of overrides, whose product are the studies of the suite."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from records.plan_file import STUDY_FILE
from records.suite_plan import PublishedResults
from study.config.loader import load_layered_study, load_study
from study.config.schema import Study
from study.config.sources import (
    COMMAND_LINE,
    STUDIES_FOLDER,
    expand_variables,
    is_suite_content,
    parse_override,
    read_toml,
)
from study.suites.file import SuiteExpectations, SuiteFile, parse_suite_file
from study.suites.published import read_published
from trainables.utils.base_settings import Settings
from trainables.utils.errors import UserError

_SHARED = ("trainable", "resources", "cache")
"""Settings that all studies of a suite have in common, because their trials run as one pool."""
_OUTPUT_KEYS = ("folder", "remote")
"""Keys of [output] that the suite decides for its studies."""
Layer = tuple[str, dict[str, Any]]
"""Name of a place for messages, and the settings that it gives as nested tables."""


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
        planned: all studies of the file, in the order in which they run. In those that are not selected, environment
            variables that are not set are left as they are written.
        studies: the selected studies.
        published: published results, or None.
        expected: needs of the suite.
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
    own, others = _OwnSettings(), list[str]()
    for override in overrides:
        if not own.take_override(override):
            others.append(override)
    data = read_toml(source)
    file = parse_suite_file(source, data if own.name is None else {**data, "name": own.name})
    columns = file.columns or ("task" if "task" in file.axes else next(iter(file.axes)))
    if columns not in file.axes:
        raise UserError(f"{source}: columns", repr(columns), f"an axis: {', '.join(file.axes)}")
    common = [*_read_base(source, file), own.take_layer((f"{source}: study", deepcopy(file.study)))]
    folder = Path(os.path.expanduser(own.output.get("folder") or f"results/{file.name}")).absolute()
    planned, studies = list[SuiteStudy](), list[SuiteStudy]()
    combinations = {_make_key(labels): labels for labels in _list_combinations(source, file)}
    for key, labels in combinations.items():
        layers = [*common, *_list_axis_layers(source, file, labels)]
        layers.append((f"{source}: {key}", own.make_study_settings(file.name, folder, key)))
        is_selected = not selected or any(fnmatch(key, pattern) for pattern in selected)
        planned.append(SuiteStudy(key, labels, load_layered_study(layers, others, is_draft=True)))
        if is_selected:
            studies.append(SuiteStudy(key, labels, load_layered_study(layers, others)))
    if not studies:
        raise UserError("--study", ", ".join(selected), f"one of {', '.join(combinations)}")
    _check_studies(source, planned)
    if _may_share_runs(planned):
        planned, studies = map(_separate_projects, (planned, studies))
    axes = {axis: list(values) for axis, values in file.axes.items()}
    published = read_published(file.published, source) if file.published else None
    return Suite(file.name, folder, columns, axes, tuple(planned), tuple(studies), published, file.expected)


class _OwnSettings:
    """Settings of a study file that a suite has itself, and from which it makes those of its studies.

    Attributes:
        name: name of the suite, if the command line gives one.
        output: folder of the suite and place of the remote copies, as far as they are given.
        project: W&B project, if one is given.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self.output: dict[str, str | None] = {}
        self.project: str | None = None
        self._given: dict[str, str] = {}

    def take_override(self, override: str) -> bool:
        """Take a setting of the command line, if it is one of the suite, and return whether it is.

        Raises:
            UserError: if its value is none that the suite can have, or it was given before with another value.
        """
        key = override.partition("=")[0].strip()
        section, _, name = key.partition(".")
        if key not in ("name", "output", "tracking.project") and not (section == "output" and name in _OUTPUT_KEYS):
            return False
        if self._given.setdefault(key, override) != override:
            raise UserError(f"{COMMAND_LINE}: {key}", f"given twice, also as {self._given[key]!r}", "one value")
        nested = parse_override(override)
        if key == "name":
            self.name = nested["name"]
        else:
            _, rest = self.take_layer((COMMAND_LINE, nested))
            if any(rest.values()):
                raise UserError(f"{COMMAND_LINE}: {key}", repr(rest), f"a table of {', '.join(_OUTPUT_KEYS)}")
        return True

    def take_layer(self, layer: Layer) -> Layer:
        """Take the settings of the suite out of those that a place gives for all studies, and return the rest.

        What was taken before stays: the command line comes first.

        Raises:
            UserError: if a value is no text, or the place names the studies.
        """
        place, data = layer
        if "name" in data:
            raise UserError(f"{place}: name", repr(data["name"]), "none here; the name of the suite is its key name")
        sections = {name: data.get(name, {}) for name in ("output", "tracking")}
        for name, section in sections.items():
            if not isinstance(section, dict):
                raise UserError(f"{place}: {name}", repr(section), "a table of keys")
        output, tracking = sections.values()
        for key in [key for key in output if key in _OUTPUT_KEYS]:
            self.output.setdefault(key, _check_text(f"{place}: output.{key}", output.pop(key)))
        if "project" in tracking:
            project = _check_text(f"{place}: tracking.project", tracking.pop("project"))
            self.project = self.project or project
        return layer

    def make_study_settings(self, suite: str, folder: Path, key: str) -> dict[str, Any]:
        """Return the settings of one study that follow from those of the suite."""
        output = {"folder": str(folder / key)}
        if remote := self.output.get("remote"):
            output["remote"] = f"{remote.rstrip('/')}/{key}"
        return {
            "name": f"{suite}-{key}",
            "output": output,
            "tracking": {"project": self.project or suite, "group": key},
        }


def _check_text(place: str, value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and value):
        raise UserError(place, repr(value), "text of at least one character")
    return expand_variables(value, place) if isinstance(value, str) else None


def _read_base(source: str, file: SuiteFile) -> list[Layer]:
    """Return the base without what is its own: its name, output, W&B project and expectations."""
    if file.base is None:
        return []
    shipped = (STUDIES_FOLDER / f"{file.base}.toml").is_file()
    path = file.base if shipped else str(Path(os.path.expanduser(source)).parent / os.path.expanduser(file.base))
    data = read_toml(path)
    if is_suite_content(data):
        raise UserError(f"{source}: base", repr(file.base), "a study, not a suite")
    tracking = data.get("tracking")
    kept = {key: value for key, value in data.items() if key not in ("name", "output", "expected")}
    if isinstance(tracking, dict):
        kept["tracking"] = {key: value for key, value in tracking.items() if key not in ("project", "group")}
    return [(file.base, kept)]


def _list_axis_layers(source: str, file: SuiteFile, labels: Mapping[str, str]) -> list[Layer]:
    """Return the settings of the labels of a study.

    Raises:
        UserError: if they contain a setting that all studies have in common.
    """
    layers = [(f"{source}: axes.{axis}.{label}", file.axes[axis][label]) for axis, label in labels.items()]
    for place, data in layers:
        tracking = data.get("tracking")
        named = [str(key) for key in data if key in ("name", "output")]
        named += [f"tracking.{key}" for key in ("project", "group") if isinstance(tracking, dict) and key in tracking]
        if named:
            raise UserError(f"{place}: {named[0]}", "set for one label", "none; it is a setting of the whole suite")
    return layers


def _list_combinations(source: str, file: SuiteFile) -> Iterator[dict[str, str]]:
    """Yield the labels of each study by axis, in the order of the file.

    Raises:
        UserError: if a label of `skip` is unknown, nothing is left, or two studies would have the same key or none.
    """
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
                raise UserError(f"{source}: {name}", found, "the same in all studies")
        for name in ("alpha", "correction", "margin"):
            if getattr(each.study.analysis, name) != getattr(first.study.analysis, name):
                found = f"not that of {first.key} in {each.key}"
                raise UserError(f"{source}: analysis.{name}", found, "the same in all studies")
        if each.study.training.threads != first.study.training.threads:
            found = f"{each.study.training.threads} in {each.key}, {first.study.training.threads} in {first.key}"
            raise UserError(f"{source}: training.threads", found, "the same in all studies")
        if each.study.search.hours is not None:
            expected = "none in a suite, whose studies share the machines; search.gpu_hours counts those of one study"
            raise UserError(f"{source}: search.hours", each.study.search.hours, expected)


def _show(value: object) -> str:
    return repr(value.model_dump(exclude_defaults=True) if isinstance(value, Settings) else value)


def _may_share_runs(studies: Sequence[SuiteStudy]) -> bool:
    """Return whether two studies could have a run of the same id: of the BM25 order, if they have the same task."""
    tasks = [each.study.task.model_dump_json() for each in studies]
    return len(set(tasks)) < len(tasks)


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
    if folder.is_dir() and not (STUDIES_FOLDER / f"{name}.toml").is_file():
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
    """Return the study whose results are in a folder. Its cache is the one next to the folder, if there is one.

    Raises:
        UserError: the folder has no copy of the study.
    """
    file = folder / STUDY_FILE
    if not file.is_file():
        expected = "a folder of results of one study; rerun a study to write the file, or give its name"
        raise UserError(str(folder), f"no {STUDY_FILE}", expected)
    places: dict[str, Any] = {"output": {"folder": str(folder)}}
    if cache := next((parent / ".cache" for parent in folder.parents[:2] if (parent / ".cache").is_dir()), None):
        places["cache"] = {"folder": str(cache)}
    return load_layered_study([(str(file), read_toml(str(file))), (str(folder), places)], overrides)
