"""An ensemble is the mean score of its seeds, as ir_measures evaluates it."""

from pathlib import Path

import ir_measures
import pytest

from analysis.rendering.document import build_document, render_markdown
from tests.analysis.builders import analyse, scores, study_runs
from trainables.utils.errors import UserError


def test_values_are_those_of_ir_measures(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    ensembles = analyse(tmp_path, runs).ensembles
    metric, by_system = ir_measures.parse_measure("R@1"), {}
    for name in ("BERT", "LS"):
        frames = [run.scores["test"] for run in runs if run.variant == name]
        key = ["query_id", "document_id"]
        mean = sum(frame.set_index(key)["score"] for frame in frames) / len(frames)
        first = frames[0].rename(columns={"document_id": "doc_id", "relevant": "relevance"})
        run = mean.reset_index().rename(columns={"document_id": "doc_id"})
        found = ir_measures.iter_calc([metric], first[["query_id", "doc_id", "relevance"]], run)
        by_system[name] = dict(sorted((value.query_id, value.value) for value in found))
    rows = {row.system: row for row in ensembles}
    for name, values in by_system.items():
        assert rows[name].value == pytest.approx(sum(values.values()) / len(values))


def test_the_ensemble_of_copies_is_the_single_run(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    first = {run.variant: run.scores["test"] for run in reversed(runs)}
    for run in runs:
        run.scores["test"] = first[run.variant]
    for row in analyse(tmp_path, runs).ensembles:
        assert row.value == pytest.approx(row.mean, abs=1e-12)


def test_the_report_has_the_table_only_for_several_seeds(tmp_path: Path) -> None:
    several, one = (analyse(tmp_path / str(len(seeds)), study_runs(seeds, grid=False)) for seeds in ((1, 2, 3), (1,)))
    assert "## Ensembles of the seeds" in render_markdown(build_document(several))
    assert one.ensembles == []
    assert "Ensembles" not in render_markdown(build_document(one))


def test_a_system_that_lacks_a_seed_has_no_ensemble(tmp_path: Path) -> None:
    runs = [run for run in study_runs(grid=False) if (run.variant, run.seed) != ("LS", 2)]
    names = [row.system for row in analyse(tmp_path, runs).ensembles]
    assert "BERT" in names
    assert "LS" not in names


def test_seeds_with_other_candidates_cannot_be_averaged(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    run = next(run for run in runs if (run.variant, run.seed) == ("LS", 2))
    changed = scores("test", 60, 1.5, 7)
    run.scores["test"] = changed.assign(document_id=changed["document_id"] + "x")
    with pytest.raises(UserError, match="different candidates; expected runs of the same candidates"):
        analyse(tmp_path, runs)
