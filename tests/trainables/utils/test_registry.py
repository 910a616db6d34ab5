"""Registries find objects by all their names, import them late and name what they have."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainables.curriculum import PACING
from trainables.metrics import METRICS
from trainables.smoothing import SCHEDULES
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Provider, Registry, check_module


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
def test_any_other_name_is_refused_with_the_names(name: object) -> None:
    with pytest.raises(ValueError, match=r"^one of absolute, power_n, floor:ID$"):
        POWERS.check_name(name)
    if isinstance(name, str):
        assert name not in POWERS
        with pytest.raises(KeyError, match="expected one of absolute, power_n, floor:ID"):
            POWERS[name]


def test_equal_registries_are_equal_also_after_a_journey() -> None:
    assert pickle.loads(pickle.dumps(PACING)) == PACING
    assert PACING != SCHEDULES
    assert POWERS != {**POWERS}


def test_a_name_whose_parameters_make_no_sense_is_a_key_error() -> None:
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


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (b"import json.decoder\n", ""),
        (b'globals()["json"] = 3\n', ""),
        (b'import sys\nsetattr(sys.modules[__name__], "json", 3)\n', ""),
        (b"from math import *\n", ""),
        (b"import math.json\n", "(module a_module has no json)"),
        (b"def json(:\n", "(module a_module cannot be read: SyntaxError: "),
        (b"json = 1\0\n", "(module a_module cannot be read: "),
        (b"# coding: none\n", "(module a_module cannot be read: "),
    ],
)
def test_a_name_is_refused_only_if_the_source_cannot_have_it(
    source: bytes, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_module.py").write_bytes(source)
    monkeypatch.syspath_prepend(tmp_path)
    provider = Provider("mine 1.0", "tasks", "x", "mine:MADE")
    entry = Entry("mine", "a_module:json", "a line", "a source", provider=provider)
    if not told:
        check_module(entry, "a_module:json")
        return
    with pytest.raises(UserError) as caught:
        check_module(entry, "a_module:json")
    assert str(caught.value).startswith(f"{provider.place}: a_module:json {told}")
    assert "repair the package" in str(caught.value)
