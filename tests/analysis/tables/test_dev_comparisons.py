"""Comparisons on dev: numbers by scipy, a correction of their own, a caution; those on test stay what they were."""

import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from analysis.data.study_results import per_query
from analysis.export.wandb_summary import build_wandb_summary
from analysis.readers.study_reader import read_records
from analysis.report import Report
from analysis.tables.main import build_report_data
from tests.analysis.builders import PLAN, Made, plan_of, report_of, study_runs, write_records
from tests.analysis.similarity import encoder_plan, encoder_runs

PAIRS = [["LS", "BERT"], ["T-WSLS", "BERT"], ["T-WSLS", "WSLS"]]
DEV = {"name": "variants on dev", "correction": "holm", "comparisons": PAIRS, "split": "dev"}
LUCK = "These scores are optimistic: {} were chosen by them"
NO_CHOICE = "Nothing was chosen by these scores: every system has one configuration."


def _report(folder: Path, runs: list[Made], with_dev: bool = True, **changes: Any) -> Report:
    families = [*PLAN["families"], *([DEV] if with_dev else [])]
    return report_of(folder, runs, families=families, **changes)


def test_they_are_scipys_on_dev_and_corrected_by_themselves(tmp_path: Path) -> None:
    found = _report(tmp_path, study_runs(grid=False))
    table = per_query(found.analysis.results, "dev", "R10@1")
    means = table.groupby(["system", "query_id"])["value"].mean().unstack(0)
    own = [c for c in found.analysis.comparisons if c.family == DEV["name"]]
    assert [[c.system, c.baseline] for c in own] == PAIRS
    for c in own:
        assert c.targets["queries"].p == pytest.approx(stats.ttest_rel(means[c.system], means[c.baseline]).pvalue)
        assert c.adjusted["bonferroni"] == pytest.approx(min(1.0, len(PAIRS) * c.targets["both"].p))
        assert (c.comparisons, c.split) == (len(PAIRS), "dev")


def test_comparisons_on_test_are_what_they_were(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    without, with_dev = _report(tmp_path / "a", runs, with_dev=False), _report(tmp_path / "b", runs)
    first, second = ((report.folder / "comparisons.json").read_text() for report in (without, with_dev))
    assert [row.get("split") for row in json.loads(second)] == [None] * len(json.loads(first)) + ["dev"] * len(PAIRS)
    assert second.startswith(first.removesuffix("\n]"))
    assert with_dev.conclusion == without.conclusion
    assert with_dev.analysis.table == without.analysis.table


def test_a_dev_family_before_the_others_is_no_headline(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    write_records(tmp_path, plan_of(runs, families=[DEV, *PLAN["families"]]), runs)
    found = read_records(tmp_path)
    assert found.plan.headline.name == "variants"
    assert [family.name for family in found.plan.test_families] == ["variants", "sanity"]


@pytest.mark.parametrize(
    ("grid", "checkpoint", "said"),
    [
        (False, None, NO_CHOICE),
        (False, "last", NO_CHOICE),
        (False, "MAP", LUCK.format("checkpoints")),
        (True, "MAP", LUCK.format("configurations and checkpoints")),
    ],
)
def test_the_report_says_what_the_scores_are_worth(
    tmp_path: Path, grid: bool, checkpoint: str | None, said: str
) -> None:
    training = {} if checkpoint is None else {"checkpoint": checkpoint}
    found = _report(tmp_path, study_runs(grid=grid), settings={"training": training})
    for text in ((found.folder / name).read_text() for name in ("table.md", "report.html", "table.tex")):
        assert "variants on dev" in text
        assert said in text
    latex = (found.folder / "table.tex").read_text()
    assert r"\label{tab:comparisons-variants-on-dev}" in latex
    assert (NO_CHOICE in latex) == (said == NO_CHOICE)


def test_a_configuration_with_fresh_seeds_alone_was_not_chosen_from(tmp_path: Path) -> None:
    """A default is confirmed even where the search did not propose it."""
    runs = study_runs(grid=False) + [Made("LS", seed, 1.4, 0.1, role="confirm") for seed in (11, 12)]
    for run in runs[-2:]:
        run.scores = {"dev": runs[1].scores["dev"]}
    assert NO_CHOICE in (_report(tmp_path, runs).folder / "table.md").read_text()


def test_w_and_b_gets_both(tmp_path: Path) -> None:
    found = _report(tmp_path, study_runs(grid=False))
    summary = build_wandb_summary(found.analysis)
    for c in found.analysis.comparisons:
        if [c.system, c.baseline] in PAIRS:
            where = " (dev)" if c.split else ""
            assert summary.get(f"comparison/{c.system} vs {c.baseline}{where}/difference") == c.difference
    assert "comparison/T-WSLS vs WSLS/difference" not in summary


def test_encoders_are_compared_on_the_set_of_dev(tmp_path: Path) -> None:
    runs = encoder_runs()
    plan = encoder_plan(runs)
    pair = plan["families"][0]["comparisons"][0]
    family = DEV | {"comparisons": [pair], "correction": "bonferroni"}
    write_records(tmp_path, plan | {"families": [*plan["families"], family]}, runs)
    found = build_report_data(read_records(tmp_path))
    (own,) = (c for c in found.comparisons if c.split)
    table = per_query(found.results, "dev", plan["metric"])
    means = table.groupby("system")["value"].mean()
    assert own.difference == pytest.approx(means[pair[0]] - means[pair[1]])
