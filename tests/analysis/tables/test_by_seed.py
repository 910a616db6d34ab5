"""A row a seed: means and marks by scipy, what is missing is missing, the best of a row is bold."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.data.results import per_query
from analysis.readers.results import read_records
from analysis.rendering.latex import render_latex
from analysis.rendering.pages import render_html, render_markdown
from analysis.rendering.sections import build_seed_sections
from analysis.tables.main import ReportData, build_report_data
from analysis.tables.marks import get_seed_mark
from tests.analysis.builders import Made, plan_of, scores, study_runs, write_records

SYSTEMS = ["BERT", "LS", "T-LS", "WSLS", "T-WSLS"]


def _study(folder: Path, runs: list[Made], **changes: object) -> ReportData:
    write_records(folder, plan_of(runs, **changes), runs)
    return build_report_data(read_records(folder))


def _graded(seeds: tuple[int, ...] = (1, 2, 3)) -> list[Made]:
    """One worse by far, one a little better, one better by far than the baseline."""
    runs = study_runs(seeds, grid=False)
    quality = {"LS": -1.0, "T-LS": 1.9, "T-WSLS": 4.0}
    for run in runs:
        if run.variant in quality:
            run.scores["test"] = scores("test", 60, quality[run.variant], int(run.id[:8], 16))
    return runs


def test_means_and_marks_are_scipys(tmp_path: Path) -> None:
    found = _study(tmp_path, _graded())
    (section,) = build_seed_sections(found)
    assert section.header == ["seed", *SYSTEMS]
    assert [row[0] for row in section.rows] == ["1", "2", "3", "mean", "SD"]
    values = per_query(found.results, "test", "R10@1").set_index(["system", "seed"])["value"]
    marks = set()
    for row, seed in zip(section.rows, (1, 2, 3), strict=False):
        base = values["BERT", seed].to_numpy()
        for cell, system in zip(row[1:], SYSTEMS, strict=True):
            own = values[system, seed].to_numpy()
            value, _, mark = cell.partition(" ")
            assert value == f"{own.mean():.4f}"
            p = 1.0 if system == "BERT" else stats.ttest_rel(own, base).pvalue
            strokes = "↑↓" if p >= 0.01 else "⇑⇓"
            expected = strokes[int(own.mean() < base.mean())] if p < 0.05 else ""
            assert mark == expected
            marks.add(mark)
    assert {"", "⇑", "⇓"} <= marks
    means = values.groupby(level=["system", "seed"]).mean().unstack("system")
    assert section.rows[3][1:] == [f"{means[name].mean():.4f}" for name in SYSTEMS]
    assert section.rows[4][1:] == [f"{np.std(means[name], ddof=1):.4f}" for name in SYSTEMS]
    assert section.bold == {(row, 1 + SYSTEMS.index("T-WSLS")) for row in range(4)}


def test_marks_tell_levels_and_directions() -> None:
    assert [get_seed_mark(p, 1.0) for p in (0.0, 0.0099, 0.01, 0.0499, 0.05, 1.0)] == ["⇑", "⇑", "↑", "↑", "", ""]
    assert [get_seed_mark(p, -1.0) for p in (0.0099, 0.0499, 0.05)] == ["⇓", "↓", ""]
    assert [get_seed_mark(p, gain, 1) for p in (0.0099, 0.0499, 0.05) for gain in (1, -1)] == [
        "△△", "▽▽", "△", "▽", "", ""
    ]  # fmt: skip


def test_of_a_metric_of_which_less_is_better_gains_are_drops(tmp_path: Path) -> None:
    found = _study(tmp_path, _graded(), metric="position")
    (section,) = build_seed_sections(found)
    assert section.rows[0][1 + SYSTEMS.index("T-WSLS")].endswith("⇑")
    assert section.rows[0][1 + SYSTEMS.index("LS")].endswith("⇓")
    assert (0, 1 + SYSTEMS.index("T-WSLS")) in section.bold


def _curricula(folder: Path, without: tuple[str, int] | None = None) -> ReportData:
    """Two variants, each with a shuffled order and with one by turns, which is worse and better than it."""
    quality = {"BERT": 1.5, "CL-random": 4.0, "CL-turns": 1.4, "T-LS-CL-random": 1.4, "T-LS-CL-turns": 4.0}
    runs = []
    for name, value in quality.items():
        for seed in (1, 2, 3):
            run = Made(name, seed, value, tested=True)
            if "CL" in name:
                run.further = {"score": name.rpartition("-")[2], "pacing": "root_2"}
            run.scores = {split: scores(split, 60, value, int(run.id[:8], 16)) for split in ("dev", "test")}
            if (name, seed) == without:
                del run.scores["test"]
            runs.append(run)
    pairs = [[name, "BERT"] for name in list(quality)[1:]]
    pairs += [[f"{head}CL-turns", f"{head}CL-random"] for head in ("", "T-LS-")]
    families = [{"name": "variants", "comparisons": pairs}]
    return _study(folder, runs, systems=list(quality), families=families)


def _mark(own: np.ndarray, other: np.ndarray, marks: str) -> str:
    """The mark by scipy: one sign at 95 %, another or two of them at 99 %."""
    p = stats.ttest_rel(own, other).pvalue
    better, worse, surely_better, surely_worse = marks.split()
    better, worse = (surely_better, surely_worse) if p < 0.01 else (better, worse)
    return "" if p >= 0.05 else better if own.mean() > other.mean() else worse


def test_runs_are_marked_against_the_shuffled_order_of_their_variant_too(tmp_path: Path) -> None:
    found = _curricula(tmp_path)
    (section,) = build_seed_sections(found)
    values = per_query(found.results, "test", "R10@1").set_index(["system", "seed"])["value"]
    marks = {name: set[str]() for name in section.header[1:]}
    for row, seed in zip(section.rows, (1, 2, 3), strict=False):
        for cell, system in zip(row[1:], section.header[1:], strict=True):
            own, expected = values[system, seed].to_numpy(), ""
            if system != "BERT":
                expected += _mark(own, values["BERT", seed].to_numpy(), "↑ ↓ ⇑ ⇓")
            if system.endswith("turns"):
                other = system.replace("turns", "random")
                expected += _mark(own, values[other, seed].to_numpy(), "△ ▽ △△ ▽▽")
            assert cell.partition(" ")[2] == expected
            marks[system].add(expected)
    assert any("▽▽" in mark for mark in marks["CL-turns"])
    assert "⇑△△" in marks["T-LS-CL-turns"]
    orders = "the shuffled order (CL-random, T-LS-CL-random)"
    assert f"△ better and ▽ worse than {orders} at 95 %, △△ better and ▽▽ worse than {orders} at 99 %" in section.legend
    assert r"$^{\Uparrow\vartriangle\vartriangle}$" in render_latex(found)


def test_a_missing_run_of_the_shuffled_order_leaves_its_mark_away(tmp_path: Path) -> None:
    whole, lacking = (_curricula(tmp_path / str(lost), lost) for lost in (None, ("CL-random", 2)))
    assert whole.seed_table is not None
    assert lacking.seed_table is not None
    column = whole.seed_table.systems.index("CL-turns")
    cells = [
        (first[column], second[column])
        for first, second in zip(whole.seed_table.rows, lacking.seed_table.rows, strict=True)
    ]
    assert [first == second for first, second in cells] == [True, False, True]
    assert cells[1][1] is not None
    assert "▽" not in cells[1][1].marks


def test_without_a_shuffled_order_there_is_one_kind_of_mark(tmp_path: Path) -> None:
    """T-WSLS is compared with T-LS as well, which is no shuffled order."""
    (section,) = build_seed_sections(_study(tmp_path, _graded()))
    assert not {*"△▽"} & {*section.legend, *"".join(cell for row in section.rows for cell in row)}


def test_every_form_shows_marks_and_bold(tmp_path: Path) -> None:
    found = _study(tmp_path, _graded())
    (section,) = build_seed_sections(found)
    best = section.rows[0][-1]
    assert f" **{best}** |" in render_markdown(found)
    assert f"<strong>{best}</strong>" in render_html(found, {})
    value = best.partition(" ")[0]
    assert rf"\textbf{{{value}}}$^{{\Uparrow}}$" in render_latex(found)
    assert "uncorrected, one a seed, as in the paper" in render_markdown(found)
    for text in (render_markdown(found), render_html(found, {})):
        assert (
            "⇑ better and ⇓ worse than BERT at 99 %, ↑" in text or "↑ better and ↓ worse than BERT at 95 %, ⇑" in text
        )


def test_a_missing_run_is_a_dash_and_never_averaged(tmp_path: Path) -> None:
    runs = [run for run in _graded() if (run.variant, run.seed) not in (("T-WSLS", 2), ("BERT", 3))]
    found = _study(tmp_path, runs)
    (section,) = build_seed_sections(found)
    column = [row[-1] for row in section.rows]
    assert column[1] == column[3] == column[4] == "-"
    assert column[0].endswith("⇑")
    assert " " not in column[2]  # the baseline's run is missing
    assert {place for place in section.bold if place[1] == 5} == {(0, 5), (2, 5)}


def test_one_seed_and_none(tmp_path: Path) -> None:
    found = _study(tmp_path / "one", _graded((1,)), seeds=[1])
    (section,) = build_seed_sections(found)
    assert [row[0] for row in section.rows] == ["1", "mean", "SD"]
    assert section.rows[2][1:] == ["-"] * 5
    runs = study_runs(seeds=(1,), grid=False)
    for run in runs:
        run.scores.pop("test", None)
    assert build_seed_sections(_study(tmp_path / "none", runs, seeds=[1])) == []


@pytest.mark.parametrize(("systems", "broad"), [(7, False), (12, True)])
def test_many_systems_are_a_broad_table(tmp_path: Path, systems: int, broad: bool) -> None:
    names = ["BERT", *(f"CL-words_responses{number}" for number in range(systems - 1))]
    runs = [Made(name, seed, 1.5, tested=True) for name in names for seed in (1, 2)]
    for run in runs:
        run.scores = {split: scores(split, 30, 1.5, int(run.id[:8], 16)) for split in ("dev", "test")}
    families = [{"name": "variants", "comparisons": [[name, "BERT"] for name in names[1:]]}]
    found = _study(tmp_path, runs, seeds=[1, 2], systems=names, families=families)
    (section,) = build_seed_sections(found)
    assert section.is_wide == broad
    assert len(section.header) == systems + 1
    before_label, _, _ = render_latex(found).partition(r"\label{tab:seed-by-seed}")
    assert before_label.rpartition(r"\begin{table")[2].startswith("*}") == broad
    assert r"CL-\\words\_\\responses0\end{tabular}" in render_latex(found)
