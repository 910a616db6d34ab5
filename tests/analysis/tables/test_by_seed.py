"""A row a seed: means, what is missing is missing, the best of a row is bold."""

from pathlib import Path

import numpy as np
import pytest

from analysis.data.study_results import per_query
from analysis.rendering.document import build_document, render_html, render_latex, render_markdown
from tests.analysis.builders import Made, analyse, scores, study_runs

SYSTEMS = ["BERT", "LS", "T-LS", "WSLS", "T-WSLS"]


def _graded(seeds: tuple[int, ...] = (1, 2, 3)) -> list[Made]:
    """One worse by far, one a little better, one better by far than the baseline."""
    runs = study_runs(seeds, grid=False)
    quality = {"LS": -1.0, "T-LS": 1.9, "T-WSLS": 4.0}
    for run in runs:
        if run.variant in quality:
            run.scores["test"] = scores("test", 60, quality[run.variant], int(run.id[:8], 16))
    return runs


def test_means_and_deviations_are_of_the_runs(tmp_path: Path) -> None:
    found = analyse(tmp_path, _graded())
    section = found.by_seed
    assert section.header == ["seed", *SYSTEMS]
    assert [row[0] for row in section.rows] == ["1", "2", "3", "mean", "SD"]
    values = per_query(found.results, "test", "R10@1").set_index(["system", "seed"])["value"]
    for row, seed in zip(section.rows, (1, 2, 3), strict=False):
        assert row[1:] == [f"{values[system, seed].mean():.4f}" for system in SYSTEMS]
    means = values.groupby(level=["system", "seed"]).mean().unstack("system")
    assert section.rows[3][1:] == [f"{means[name].mean():.4f}" for name in SYSTEMS]
    assert section.rows[4][1:] == [f"{np.std(means[name], ddof=1):.4f}" for name in SYSTEMS]
    assert section.bold == {(row, 1 + SYSTEMS.index("T-WSLS")) for row in range(4)}
    best, document = section.rows[0][-1], build_document(found)
    assert f" **{best}** |" in render_markdown(document)
    assert f"<strong>{best}</strong>" in render_html(document)
    assert rf"\textbf{{{best}}}" in render_latex(document)


def test_the_best_by_a_metric_is_the_lowest_if_less_is_better(tmp_path: Path) -> None:
    found = analyse(tmp_path, _graded(), metric="position")
    section = found.by_seed
    assert (0, 1 + SYSTEMS.index("T-WSLS")) in section.bold


def test_a_missing_run_is_a_dash_and_never_averaged(tmp_path: Path) -> None:
    runs = [run for run in _graded() if (run.variant, run.seed) not in (("T-WSLS", 2), ("BERT", 3))]
    found = analyse(tmp_path, runs)
    section = found.by_seed
    column = [row[-1] for row in section.rows]
    assert column[1] == column[3] == column[4] == "-"
    assert {place for place in section.bold if place[1] == 5} == {(0, 5), (2, 5)}


def test_one_seed_and_none(tmp_path: Path) -> None:
    found = analyse(tmp_path / "one", _graded((1,)), seeds=[1])
    section = found.by_seed
    assert [row[0] for row in section.rows] == ["1", "mean", "SD"]
    assert section.rows[2][1:] == ["-"] * 5
    runs = study_runs(seeds=(1,), grid=False)
    for run in runs:
        run.scores.pop("test", None)
    assert analyse(tmp_path / "none", runs, seeds=[1]).by_seed is None


@pytest.mark.parametrize(("systems", "broad"), [(7, False), (12, True)])
def test_many_systems_are_a_broad_table(tmp_path: Path, systems: int, broad: bool) -> None:
    names = ["BERT", *(f"CL-words_responses{number}" for number in range(systems - 1))]
    runs = [Made(name, seed, 1.5, tested=True) for name in names for seed in (1, 2)]
    for run in runs:
        run.scores = {split: scores(split, 30, 1.5, int(run.id[:8], 16)) for split in ("dev", "test")}
    families = [{"name": "variants", "comparisons": [[name, "BERT"] for name in names[1:]]}]
    found = analyse(tmp_path, runs, seeds=[1, 2], systems=names, families=families)
    section = found.by_seed
    assert section.is_wide == broad
    assert len(section.header) == systems + 1
    before_label, _, _ = render_latex(build_document(found)).partition(r"\label{tab:seed-by-seed}")
    assert before_label.rpartition(r"\begin{table")[2].startswith("*}") == broad
    assert r"CL-\\words\_\\responses0\end{tabular}" in render_latex(build_document(found))
