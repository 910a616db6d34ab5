"""The signature of a schedule is all that its settings need, and a wrong one is one line."""

import inspect
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from trainables.smoothing import SCHEDULES
from trainables.smoothing.schedule_settings import SCHEDULE_SETTINGS, SETTINGS
from trainables.smoothing.signatures import Searched, complete_schedule, read_settings
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Registry

Power = Annotated[float, Field(gt=0, le=5, description="Power of the schedule power.")]


def power(epsilon: float, seen: int, total: int, power: Power = 2.0) -> float:
    return float(epsilon * (1 - seen / total) ** power)


def same(epsilon: float, seen: int, total: int, power: Power = 2.0) -> float:
    return epsilon


def other_default(epsilon: float, seen: int, total: int, power: Power = 3.0) -> float:
    return epsilon


def other_range(
    epsilon: float, seen: int, total: int, power: Annotated[float, Field(gt=0, description="Power.")] = 2.0
) -> float:
    return epsilon


def other_grid(epsilon: float, seen: int, total: int, power: Annotated[Power, Searched((1.0, 2.0))] = 2.0) -> float:
    return epsilon


def whole(
    epsilon: float, seen: int, total: int, parts: Annotated[int, Field(ge=1, description="Number of parts.")] = 4
) -> float:
    return epsilon


def no_range(epsilon: float, seen: int, total: int, power: float = 2.0) -> float:
    return epsilon


def no_limits(
    epsilon: float, seen: int, total: int, power: Annotated[float, Field(description="Power.")] = 2.0
) -> float:
    return epsilon


def no_description(epsilon: float, seen: int, total: int, power: Annotated[float, Field(gt=0)] = 2.0) -> float:
    return epsilon


def no_default(epsilon: float, seen: int, total: int, power: Power) -> float:
    return epsilon


def no_number(
    epsilon: float, seen: int, total: int, power: Annotated[str, Field(gt=0, description="Power.")] = "2"
) -> float:
    return epsilon


def low_default(epsilon: float, seen: int, total: int, power: Power = 0.0) -> float:
    return epsilon


def high_grid(epsilon: float, seen: int, total: int, power: Annotated[Power, Searched((1.0, 6.0))] = 2.0) -> float:
    return epsilon


def taken(epsilon: float, seen: int, total: int, variant: Power = 2.0) -> float:
    return epsilon


def capital(epsilon: float, seen: int, total: int, Power: Power = 2.0) -> float:  # noqa: N803
    return epsilon


def unreadable(epsilon: float, seen: int, total: int, power: "Unknown" = 2.0) -> float:  # type: ignore # noqa: F821
    return epsilon


def few(epsilon: float) -> float:
    return epsilon


def many(epsilon: float, seen: int, total: int, *settings: float) -> float:
    return epsilon


def entry(target: Any, **own: Any) -> Entry:
    return Entry(getattr(target, "__name__", "made"), target, "a line", "a source", **own)


def schedules(*entries: Entry) -> Registry[Any]:
    return Registry(*entries, complete=complete_schedule)


WRONG = [
    (no_range, "no range for the setting power; expected Annotated[float, Field(gt=0, "),
    (no_limits, "no range for the setting power; expected Annotated[float, Field(gt=0, "),
    (no_number, "no range for the setting power; expected Annotated[float, Field(gt=0, "),
    (no_description, "no description for the setting power; expected Annotated["),
    (no_default, "no default for the setting power; expected Annotated["),
    (low_default, "[0.0] for the setting power; expected greater than 0"),
    (high_grid, "[1.0, 6.0] for the setting power; expected less than or equal to 5"),
    (taken, "the setting variant; expected a free name"),
    (capital, "the setting Power; expected a free name"),
    (unreadable, "types that cannot be read (name 'Unknown' is not defined); expected Annotated["),
    (few, "(epsilon: float) -> float; expected (epsilon, seen, total) and settings with names"),
    (many, "(epsilon: float, seen: int, total: int, *settings: float) -> float; expected (epsilon, seen, total)"),
    (3, "3; expected a function of (epsilon, seen, total)"),
]


def test_the_settings_of_a_schedule_are_its_options() -> None:
    made = schedules(entry(power), entry(whole), entry(same))
    assert {own.name: own.options for own in made.entries} == {
        "power": ("power",),
        "whole": ("parts",),
        "same": ("power",),
    }
    assert not made.errors


def test_a_setting_is_what_its_parameter_says() -> None:
    own = read_settings(power)["power"]
    assert (own.name, own.default, own.values) == ("power", 2.0, (2.0,))
    assert own.description == "Power of the schedule power."
    assert own.expected == "a list of increasing numbers, each above 0 and at most 5, e.g. [2.0]"
    for kind in (own.value_type, own.searched_type):
        check = TypeAdapter(kind).validate_python
        assert check(5) == 5
        for value in (0, 5.1, float("nan"), float("inf"), "many"):
            with pytest.raises(ValidationError):
                check(value)


def test_a_search_may_try_less_than_the_function_accepts() -> None:
    own = read_settings(SCHEDULES["two_stage"])["switch"]
    assert TypeAdapter(own.value_type).validate_python(1.5) == 1.5
    with pytest.raises(ValidationError):
        TypeAdapter(own.searched_type).validate_python(1.0)
    assert (own.default, own.values) == (0.5, (0.25, 0.5, 0.75))


def test_a_whole_number_stays_one() -> None:
    own = read_settings(whole)["parts"]
    assert own.expected == "a list of increasing whole numbers at least 1, e.g. [4]"
    with pytest.raises(ValidationError):
        TypeAdapter(own.value_type).validate_python(1.5)


@pytest.mark.parametrize(("target", "told"), WRONG, ids=lambda value: getattr(value, "__name__", "-"))
def test_a_wrong_entry_is_one_line_and_the_others_are_still_listed(target: Any, told: str) -> None:
    made = schedules(entry(power), entry(target))
    assert list(made) == ["power"]
    for name in ("power", "unknown"):
        with pytest.raises(UserError) as raised:
            made.check_name(name)
        assert str(raised.value).startswith(f"entry {getattr(target, '__name__', 'made')}: {told}")
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("target", [other_default, other_range, other_grid])
def test_schedules_share_the_name_of_a_setting_only_if_it_is_the_same(target: Any) -> None:
    (error,) = schedules(entry(power), entry(target)).errors
    assert str(error).startswith(f"entry {target.__name__}: the setting power; expected the range, default and values")


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"options": ("strength",)}, "the option strength; expected settings of its function: power"),
        ({"pattern": r"power_(\d)"}, "a name with a parameter; expected a schedule with settings"),
    ],
)
def test_an_entry_with_something_else_is_one_line(own: dict[str, Any], told: str) -> None:
    (error,) = schedules(entry(power, **own)).errors
    assert str(error) == f"entry power: {told}"


def test_a_name_that_another_entry_has_is_one_line() -> None:
    made = schedules(entry(power), entry(power))
    assert str(made.errors[0]).startswith("entry power: the name power, which this project has; expected a free name: ")


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_setting_of_a_schedule_is_a_setting(name: str) -> None:
    parameters = [*inspect.signature(SCHEDULES[name]).parameters][3:]
    assert [*SCHEDULE_SETTINGS[name]] == [own for own in parameters if own != "batch_size"]
    assert SCHEDULE_SETTINGS[name].keys() <= SETTINGS.keys()
