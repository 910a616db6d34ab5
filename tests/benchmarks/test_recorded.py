"""Recorded ratios: what fell by more than a tenth since is named, also if other things changed."""

import json
from pathlib import Path

import pytest

from benchmarks.measure import describe_share
from benchmarks.recorded import FILE, compare, read_entries, record, summarize


def entry(**ratios: float) -> dict[str, dict[str, dict[str, float]]]:
    return {"ratios": summarize({name: [value, value * 1.02, value * 0.98] for name, value in ratios.items()})}


@pytest.mark.parametrize(("now", "fell"), [(2.0, False), (2.5, False), (1.81, False), (1.79, True), (0.1, True)])
def test_a_ratio_falls_by_more_than_a_tenth(now: float, fell: bool) -> None:
    lines, fallen = compare(entry(training=now, evaluation=3.0), [entry(training=2.0, evaluation=3.0)])
    assert fallen == (["training"] if fell else [])
    assert f"{now:.2f}" in lines[0]
    assert "recorded   2.00" in lines[0]
    assert lines[1].endswith("+0%")


def test_rounds_that_overlap_are_said_and_no_fall() -> None:
    before = [{"ratios": summarize({"training": [2.0, 2.1, 1.7]})}]
    lines, fallen = compare({"ratios": summarize({"training": [1.6, 1.71, 1.5]})}, before)
    assert not fallen
    assert lines[0].endswith("-20%, but the rounds overlap")
    assert compare({"ratios": summarize({"training": [1.6, 1.69, 1.5]})}, before)[1] == ["training"]


def test_what_was_not_recorded_cannot_fall() -> None:
    lines, fallen = compare(entry(new=0.1), [entry(training=2.0)])
    assert not fallen
    assert "recorded" not in lines[0]
    assert compare(entry(new=0.1), [])[1] == []


def test_a_share_of_the_matmul_above_100_percent_is_called_void() -> None:
    assert describe_share(0.43) == "43% of the FLOP/s of a matmul"
    assert describe_share(5.43).startswith("543% of the FLOP/s of a matmul; void:")


def test_several_records_are_one_range_around_their_median() -> None:
    before = [entry(training=value) for value in (2.0, 3.0, 2.5)]
    lines, fallen = compare(entry(training=2.2), before)
    assert "recorded   2.50   -12%, but the rounds overlap" in lines[0]
    assert not fallen
    assert compare(entry(training=1.9), before)[1] == ["training"]


def test_the_last_three_records_of_a_processor_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "ratios.json"
    assert read_entries(file) == {}
    record("other", entry(training=9.0), file)
    for value in range(1, 6):
        record("one", entry(training=value), file)
    assert read_entries(file) == {"other": [entry(training=9.0)], "one": [entry(training=value) for value in (3, 4, 5)]}


def test_the_recorded_ratios_of_the_project_can_be_compared() -> None:
    entries = json.loads(FILE.read_text("utf-8"))
    assert entries
    for own in (each for several in entries.values() for each in several):
        lines, fallen = compare(own, [own])
        assert len(lines) == len(own["ratios"])
        assert not fallen
        assert all(0 < share < 1.2 for share in own["shares_of_peak"].values())
