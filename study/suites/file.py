"""Keys of a suite file, and the checks of its own values."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from search_spaces.search_settings import expect
from study.config.schema import Text
from trainables.utils.base_settings import PositiveNumber, Settings
from trainables.utils.errors import UserError, raise_if_any

_TABLE = Annotated[dict[str, Any], expect("a table of keys of a study")]
_LABEL_PATTERN = r"^[\w.+-][\w.+ -]{0,39}$"
_AXES = (
    "a table for each axis with a table for each of its labels, e.g. [axes.task.QQP]; a label has at most 40 letters, "
    "digits, dots, plus signs, hyphens and blanks"
)
Label = Annotated[str, Field(pattern=_LABEL_PATTERN)]


class SuiteExpectations(Settings):
    """Needs of a suite, for its readers; they change nothing."""

    data: Text | None = None
    """Data that the suite needs, and the environment variables that name them. If None, it needs no download."""
    gpu_hours: PositiveNumber | None = None
    """Rough estimate of the hours that all studies take on one GPU. If None, there is none."""
    minutes: PositiveNumber | None = None
    """Rough estimate of the minutes that all studies take on two cores without a GPU. If None, there is none."""


class SuiteFile(Settings):
    """Keys of a suite file."""

    name: Annotated[
        str, Field(pattern=r"^[a-z0-9-]{1,40}$"), expect("lower-case letters, digits and hyphens, at most 40")
    ]
    """Name of the suite, of its folder in `results`, and of its W&B project unless other keys say otherwise."""
    base: Text | None = None
    """Shipped study, or study file relative to the suite file. All studies have its settings.

    Its name, output, W&B project and expectations are those of the base alone."""
    study: _TABLE = Field(default={})
    """Settings of all studies, which replace those of the base."""
    axes: Annotated[
        dict[Label, Annotated[dict[Label, _TABLE], Field(min_length=1)]], Field(min_length=1), expect(_AXES)
    ]
    """Axes, such as task or model: for each value a label and the settings that it stands for.

    There is a study for each combination. Settings of a later axis replace those of an earlier one."""
    skip: Annotated[
        tuple[Annotated[dict[str, str], Field(min_length=1)], ...],
        expect("a list of labels by axis, e.g. [{ task = 'QQP' }]"),
    ] = ()
    """Combinations that are left out: those that have all labels of one of these tables."""
    columns: Text | None = None
    """Axis with the values that are the columns of the report's tables; it averages over them.

    If None, `task` if there is such an axis, else the first one."""
    published: Text | None = None
    """Table of published results that the report shows next to the measured ones; see `study/studies/published`."""
    expected: SuiteExpectations = SuiteExpectations()
    """Needs of the suite."""


def parse_suite_file(source: str, data: Mapping[str, Any]) -> SuiteFile:
    """Validate the content of a suite file.

    Raises:
        UserError: if something is wrong; the message has one line for each error.
    """
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
