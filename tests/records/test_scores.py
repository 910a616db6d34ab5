"""Any metric from the scores that were kept, for a search by any metric."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.comparisons.declared import compare_systems
from analysis.data.configurations import choose_configurations, collect_configurations
from analysis.readers.study_reader import read_records
from analysis.stats.comparison import ComparisonFamily, ComparisonSettings, compare_family
from records.scores import Evaluator
from tests.analysis.builders import plan_of, scores, study_runs, write_records
from trainables.metrics import average_precision, brier_score, ndcg_at, rank_of_first_relevant, reciprocal_rank
from trainables.utils.errors import UserError

FUNCTIONS = {
    "MAP": average_precision,
    "MRR": reciprocal_rank,
    "nDCG@2": lambda values, labels: ndcg_at(2, values, labels),
    "position": rank_of_first_relevant,
    "Brier": brier_score,
}


def written(tmp_path: Path, frame: pd.DataFrame) -> Path:
    frame.to_parquet(tmp_path / "scores.parquet", index=False)
    return tmp_path / "scores.parquet"


def ragged() -> pd.DataFrame:
    """Queries of 2 to 10 candidates with ties, their rows in no order."""
    frame = scores("dev", 12, 1.0, 3)
    number = frame["document_id"].str[1:].astype(int)
    frame = frame[number < 2 + frame["query_id"].str[4:].astype(int) % 9].round({"score": 0})
    return frame.sample(frac=1, random_state=0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_of_different_lengths(tmp_path: Path, name: str) -> None:
    frame = ragged()
    values = Evaluator().evaluate_queries(written(tmp_path, frame), "dev", name, "here")
    groups = dict(iter(frame.groupby("query_id")))
    assert len({len(group) for group in groups.values()}) == 9
    assert list(values.index) == sorted(groups)
    for query, group in groups.items():
        expected = FUNCTIONS[name]([group["score"].to_numpy()], [group["relevant"].to_numpy()])[0]
        assert values[query] == pytest.approx(expected, rel=1e-14)


def test_recall_among_n_refuses_them(tmp_path: Path) -> None:
    evaluator, path = Evaluator(), written(tmp_path, ragged())
    evaluator.evaluate_queries(path, "dev", "MAP", "here")
    with pytest.raises(UserError, match=r"here: a query with \d+ candidates; expected 4, as R4@1 needs"):
        evaluator.evaluate_queries(path, "dev", "R4@1", "here")


def test_a_query_with_a_nan_score_is_nan_and_the_others_are_as_before(tmp_path: Path) -> None:
    frame = ragged()
    before = Evaluator().evaluate_queries(written(tmp_path, frame), "dev", "MAP", "here")
    frame.loc[frame.index[frame["query_id"] == "dev-3"][0], "score"] = np.nan
    after = Evaluator().evaluate_queries(written(tmp_path, frame), "dev", "MAP", "here")
    assert np.isnan(after["dev-3"])
    pd.testing.assert_series_equal(after.drop("dev-3"), before.drop("dev-3"))


@pytest.mark.parametrize("name", ["MAP", "STS/dev-3"])
def test_an_index_that_a_file_keeps_is_not_that_of_its_rows(tmp_path: Path, name: str) -> None:
    frame = ragged()
    expected = Evaluator().evaluate_queries(written(tmp_path, frame), "dev", name, "here")
    frame.set_index(frame.index + 7).to_parquet(tmp_path / "kept.parquet")
    pd.testing.assert_series_equal(
        Evaluator().evaluate_queries(tmp_path / "kept.parquet", "dev", name, "here"), expected
    )


def test_metrics_of_one_file_do_not_mix(tmp_path: Path) -> None:
    """One evaluator says what a new one does, in any order of the questions."""
    path, evaluator = written(tmp_path, scores("dev", 20, 0.5, 1)), Evaluator()
    for name in ("MAP", "R10@1", "position", "R10@3", "MAP"):
        own = evaluator.evaluate_queries(path, "dev", name, "here")
        pd.testing.assert_series_equal(own, Evaluator().evaluate_queries(path, "dev", name, "here"))


def test_less_is_better_where_the_metric_says_so(tmp_path: Path) -> None:
    """T-WSLS of the synthetic study finds more than BERT, the fourth comparison: its position is smaller."""
    runs = study_runs(grid=False, test=200)
    verdicts, differences = {}, {}
    for name in ("MRR", "position"):
        folder = tmp_path / name
        write_records(folder, plan_of(runs, metric=name), runs)
        results = read_records(folder)
        found = compare_systems(results.plan, choose_configurations(results, collect_configurations(results)))
        verdicts[name] = [one.verdict for one in found]
        differences[name] = [one.difference for one in found]
        assert found[3].wins_ties_losses.wins > found[3].wins_ties_losses.losses
    assert verdicts["MRR"][3] == verdicts["position"][3] == "better"
    assert np.sign(differences["position"][3] or 0) == -np.sign(differences["MRR"][3] or 0) == -1


@pytest.mark.parametrize(("metric", "verdict"), [("R10@1", "better"), ("ECE", "worse"), ("position", "worse")])
def test_a_larger_value_is_a_verdict_only_with_its_metric(metric: str, verdict: str) -> None:
    d = 1 + 0.1 * np.random.default_rng(1).normal(size=(4, 50))
    (found,) = compare_family(ComparisonFamily("one", "task", metric, [("new", "old", d)]), ComparisonSettings())
    assert found.verdict == verdict
    assert (found.wins_ties_losses.wins, found.wins_ties_losses.losses) == ((50, 0) if verdict == "better" else (0, 50))
    assert found.difference == pytest.approx(d.mean())
