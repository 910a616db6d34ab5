"""Systems trained alike up to a switch point if the chosen configurations differ in it alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.comparisons.shared_beginnings import describe_shared_beginnings
from analysis.rendering.document import build_document, render_markdown
from tests.analysis.builders import PLAN, Made, analyse, study_runs

SHARED: dict[str, Any] = {"shared_beginnings": [["LS", "T-LS"], ["WSLS", "T-WSLS"]]}
SWITCH = {"name": "switch", "correction": "bonferroni", "comparisons": [["T-LS", "LS"]]}
PLANNED = SHARED | {"families": [*PLAN["families"], SWITCH]}
ALIKE = "Trained alike up to the switch point: T-LS with LS."
APART = "Trained apart from the start, because other settings were chosen: T-LS with LS."


def alike_runs(**t_ls: Any) -> list[Made]:
    """LS and T-LS alike, and what makes T-LS differ."""
    runs = [run for run in study_runs(grid=False) if run.variant in ("BERT", "BM25", "untrained", "LS", "T-LS")]
    alike = {"LS": {"epsilon": 0.2}, "T-LS": {"epsilon": 0.2, "switch": 0.5, **t_ls}}
    return [replace(run, **alike.get(run.variant, {})) for run in runs]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, ALIKE),
        ({"epsilon": 0.4}, APART),
        ({"further": {"learning_rate": 1e-5}}, APART),
        ({"switch": None, "further": {"schedule": "cosine"}}, APART),
    ],
)
def test_they_did_if_nothing_but_the_switch_differs(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    analysis = analyse(tmp_path, alike_runs(**changes), **PLANNED)
    assert describe_shared_beginnings(analysis.results.plan, analysis.chosen) == [line]
    assert line in render_markdown(build_document(analysis))


def test_nothing_is_said_of_pairs_that_could_not_or_are_not_compared(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, alike_runs())
    assert describe_shared_beginnings(analysis.results.plan, analysis.chosen) == []
    assert "rained alike" not in render_markdown(build_document(analysis))


def test_a_system_that_is_worse_than_another_system_is_no_weak_baseline(tmp_path: Path) -> None:
    """Only references such as BM25 say that a baseline is weak."""
    runs = [replace(run, quality=run.quality * (run.variant != "T-LS")) for run in alike_runs()]
    comparisons = [*PLAN["families"][0]["comparisons"], ["LS", "T-LS"]]
    families = [{**PLAN["families"][0], "comparisons": comparisons}, PLAN["families"][1], SWITCH]
    text = render_markdown(build_document(analyse(tmp_path, runs, **SHARED, families=families)))
    assert "The baseline T-LS has a worse mean than LS" not in text
