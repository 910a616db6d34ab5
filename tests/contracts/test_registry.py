"""Registries find objects by all their names, import them late and name what they have."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from trainables.metrics import METRICS
from trainables.utils.registry import Entry, Registry


def make_power(n: str) -> Callable[[int], int]:
    return lambda number: number ** int(n)


POWERS: Registry[Callable[[int], int]] = Registry(
    Entry("absolute", abs, "without its sign", "a school book"),
    Entry("power_n", make_power, "to the power n", "a school book", pattern=r"power_(\d+)", examples=("power_2",)),
    Entry("floor:ID", "math:floor", "rounded down", "the module math", pattern="floor:.+"),
)


@pytest.mark.parametrize(("name", "value"), [("absolute", 3), ("power_2", 9), ("power_3", -27), ("floor:any", -3)])
def test_an_object_is_found_by_every_name_of_its_entry(name: str, value: int) -> None:
    assert POWERS[name](-3) == value
    assert name in POWERS
    assert POWERS.check_name(name) == name


def test_the_names_that_are_listed_are_names() -> None:
    assert list(POWERS) == ["absolute", "power_2", "floor:ID"]
    assert len(POWERS) == len(POWERS.values()) == 3
    assert POWERS.format_names() == "absolute, power_n, floor:ID"


@pytest.mark.parametrize(
    "name", ["", "power_n", "power_", "floor:", "floor", "Absolute", "absolute ", None, 3, ["absolute"]]
)
def test_any_other_name_is_an_error_with_the_names(name: object) -> None:
    with pytest.raises(ValueError, match=r"^one of absolute, power_n, floor:ID; "):
        POWERS.check_name(name)
    if isinstance(name, str):
        assert name not in POWERS
        with pytest.raises(KeyError, match="expected one of absolute, power_n, floor:ID"):
            POWERS[name]


def test_a_name_with_senseless_parameters_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="k at most n"):
        METRICS["R5@10"]


def test_a_module_is_imported_when_its_object_is_asked_for() -> None:
    code = (
        "import sys; from trainables.utils.registry import Entry, Registry\n"
        "late = Registry(Entry('mean', 'statistics:mean', 'mean', 'a school book'))\n"
        "assert list(late) == ['mean'] and 'statistics' not in sys.modules\n"
        "assert late['mean']([1, 2]) == 1.5 and 'statistics' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
