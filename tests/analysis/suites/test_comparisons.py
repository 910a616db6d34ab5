"""Corrections over all studies of a suite, and the test of an average over tasks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.stats.estimate import Estimate
from analysis.stats.paired_tests import estimate_over_both, estimate_over_queries
from analysis.suites.comparisons import SuiteData, average_estimates, build_suite_data
from analysis.suites.suite_results import SuiteResults, read_suite_folder
from analysis.suites.tables import _compute_gain, answer_suite, build_score_section, list_suite_folds
from tests.analysis.suites.builders import PAIRS, write_suite


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> SuiteResults:
    folder = tmp_path_factory.mktemp("suite") / "synthetic"
    write_suite(folder)
    return read_suite_folder(folder)


@pytest.fixture(scope="module")
def data(results: SuiteResults) -> SuiteData:
    return build_suite_data(results)


def vary(results: SuiteResults, *keys: str, **changes: object) -> SuiteResults:
    """Return a suite in which the plans of these studies, of all if there are none, have these changes."""
    studies = {
        key: replace(own, plan=own.plan.model_copy(update=changes)) if not keys or key in keys else own
        for key, own in results.studies.items()
    }
    return replace(results, studies=studies)


@pytest.mark.parametrize(("correction", "oracle"), [("bonferroni", "bonferroni"), ("holm", "holm"), ("bh", "fdr_bh")])
def test_comparisons_are_corrected_for_those_of_all_studies(
    results: SuiteResults, correction: str, oracle: str
) -> None:
    suite = build_suite_data(replace(results, plan=results.plan.model_copy(update={"correction": correction})))
    p_values = [c.comparison.targets["both"].p for c in suite.comparisons]
    assert len(p_values) == 4 * len(PAIRS)
    assert [c.p for c in suite.comparisons] == pytest.approx(multipletests(p_values, method=oracle)[1])
    for each in suite.comparisons:
        assert (each.verdict in ("better", "worse")) == (each.p is not None and each.p < 0.05)
    assert {"better", "undecided"} <= {c.verdict for c in suite.comparisons}


def test_a_study_without_results_counts_in_the_correction(results: SuiteResults, data: SuiteData) -> None:
    studies = {key: study for key, study in results.studies.items() if key != "random-qqp"}
    less = build_suite_data(replace(results, studies=studies))
    assert len(less.comparisons) == 3 * len(PAIRS)
    known = {(c.study, c.comparison.system, c.comparison.baseline): c for c in data.comparisons}
    for each in less.comparisons:
        same = known[each.study, each.comparison.system, each.comparison.baseline]
        assert (each.p, each.comparisons) == (same.p, same.comparisons)
    assert {each.labels for each in less.averages if each.refusal} == {("random",)}


def test_an_average_is_the_mean_of_the_differences_of_its_tasks(data: SuiteData) -> None:
    assert [(*each.labels, each.system, each.baseline) for each in data.averages] == [
        (sampler, *pair) for sampler in ("BM25", "random") for pair in PAIRS
    ]
    for each in data.averages:
        own = [
            c.comparison.difference
            for c in data.comparisons
            if c.study.startswith(each.labels[0].lower())
            and (c.comparison.system, c.comparison.baseline) == (each.system, each.baseline)
        ]
        assert each.difference == pytest.approx(np.mean([d for d in own if d is not None]))
        assert each.p == pytest.approx(min(1, each.test.p * len(data.averages)))
        assert (each.interval[0] > 0) == (each.verdict == "better")


def test_the_same_queries_are_not_averaged_and_the_same_ids_of_other_queries_are(tmp_path: Path) -> None:
    """Test collections often number their queries."""
    write_suite(tmp_path / "suite", same_queries=True)
    averages = build_suite_data(read_suite_folder(tmp_path / "suite")).averages
    assert {each.verdict for each in averages} == {"not compared"}
    assert all("same queries" in each.refusal for each in averages)
    for task in ("bm25-qqp", "random-qqp"):
        for path in (tmp_path / "suite" / task / "runs").glob("*/*scores.parquet"):
            frame = pd.read_parquet(path)
            frame["document_id"] = "x" + frame["document_id"]
            frame.to_parquet(path)
    averages = build_suite_data(read_suite_folder(tmp_path / "suite")).averages
    assert not any(each.refusal for each in averages)


def test_each_metric_is_corrected_on_its_own(results: SuiteResults, data: SuiteData) -> None:
    """One axis is the metric: lower positions are better, and the first screen has the first metric."""
    keys = ("random-qqp", "random-mantis")
    studies = [each.model_copy(update={"metric": "position"} if each.key in keys else {}) for each in data.plan.studies]
    changed = replace(results, plan=results.plan.model_copy(update={"studies": tuple(studies)}))
    suite = build_suite_data(vary(changed, *keys, metric="position"))
    assert {(c.study in keys, c.comparisons) for c in suite.comparisons} == {
        (False, 2 * len(PAIRS)),
        (True, 2 * len(PAIRS)),
    }
    known = {(*each.labels, each.system, each.baseline): each for each in data.averages}
    for each in suite.averages:
        same = known[*each.labels, each.system, each.baseline]
        assert each.comparisons == len(PAIRS)
        assert each.p == pytest.approx(min(1, each.test.p * len(PAIRS)))
        if each.metric == "R10@1":
            assert (each.difference, each.test) == (same.difference, same.test)
        else:
            assert (each.gain > 0) == (each.difference < 0)
            assert each.verdict not in ("better", "worse") or (each.verdict == "better") == (each.difference < 0)
    assert {each.verdict for each in suite.averages if each.metric == "position"} & {"better", "worse"}
    titles = [section.title for section in list_suite_folds(suite)[0].sections]
    assert titles[:2] == ["Average over the tasks, R10@1", "Average over the tasks, position"]
    answer = answer_suite(suite)
    assert len(answer.table.rows) == len(PAIRS)
    assert f"all {len(PAIRS)} comparisons" in answer.line


def test_equivalence_is_corrected_over_the_suite(results: SuiteResults, data: SuiteData) -> None:
    assert {each.equivalence_p for each in [*data.comparisons, *data.averages]} == {None}
    suite = build_suite_data(vary(results, margin=0.12))
    for each in suite.comparisons:
        test = each.comparison.targets["both"]
        assert test is not None
        own, inner = each.equivalence_p, each.comparison.equivalence_p
        assert own >= inner
        assert own == pytest.approx(min(1, inner * 4), abs=1e-12) or inner == 1
    alike = [each.equivalence_p for each in suite.averages if each.equivalence_p is not None]
    assert len(alike) == len(suite.averages)
    assert any("equivalent" in (each.verdict for each in items) for items in (suite.comparisons, suite.averages))


def test_a_study_that_pools_its_seeds_does_so_in_the_suite(results: SuiteResults, data: SuiteData) -> None:
    """Its p-values, and the averages over tasks, are from its own plan's test; those of the other studies are not."""
    suite = build_suite_data(vary(results, "bm25-qqp", seed_variance="pooled"))
    known = {(c.study, c.comparison.system, c.comparison.baseline): c.comparison for c in data.comparisons}
    estimates = {}
    for each in suite.comparisons:
        c, same = each.comparison, known[each.study, each.comparison.system, each.comparison.baseline]
        assert (c.pooled is not None) == (each.study == "bm25-qqp")
        assert (c.targets == same.targets) == (c.pooled is None)
        assert each.p == pytest.approx(min(1, c.targets["both"].p * len(suite.comparisons)))
        estimates[each.study, c.system, c.baseline] = c.estimate
    for average in suite.averages:
        pair = average.system, average.baseline
        own = [estimates[f"{average.labels[0]}-{task}".lower(), *pair] for task in ("QQP", "MANtIS")]
        assert average.test == average_estimates([one for one in own if one]).test(0.95)
    legends = {section.title: section.legend for section in list_suite_folds(suite)[0].sections}
    sentence = "The spread over seeds is pooled over the family of each study, as its plan says, in: bm25-qqp."
    assert all(sentence in legends[title] for title in ("Average over the tasks, R10@1", "Comparisons of all studies"))
    assert not any("pooled" in section.legend for section in list_suite_folds(data)[0].sections)


def test_a_sequential_study_counts_over_its_looks_and_is_not_averaged(results: SuiteResults) -> None:
    seeds = results.studies["bm25-qqp"].plan.seeds
    suite = build_suite_data(vary(results, "bm25-qqp", confirm_seeds=seeds, group_size=2))
    for each in suite.comparisons:
        looks = each.comparison.looks
        assert bool(looks) == (each.study == "bm25-qqp")
        if looks:
            p = min(look.p / look.share for look in looks)
            assert each.p == pytest.approx(min(1, min(1, p) * len(suite.comparisons)))
    refused = {average.labels: average.refusal for average in suite.averages}
    assert "sequential" in refused["BM25",]
    assert not refused["random",]


def test_a_study_that_joined_late_marks_its_comparisons_and_averages(results: SuiteResults) -> None:
    studies = [own.model_copy(update={"is_late": own.key == "random-qqp"}) for own in results.plan.studies]
    suite = build_suite_data(replace(results, plan=results.plan.model_copy(update={"studies": tuple(studies)})))
    assert {each.study for each in suite.comparisons if each.is_late} == {"random-qqp"}
    assert {each.labels for each in suite.averages if each.is_late} == {("random",)}
    shown = [row for section in list_suite_folds(suite)[0].sections for row in section.rows]
    assert sum(any("(exploratory)" in cell for cell in row) for row in shown) == 2 * len(PAIRS)


@pytest.mark.parametrize(
    ("value", "base", "metric", "gain"),
    [(0.6, 0.5, "MAP", 20.0), (4.0, 5.0, "position", 20.0), (-0.4, -0.5, "STS", 20.0), (0.5, 0.0, "MAP", None)],
)
def test_a_gain_is_positive_where_the_system_is_better(
    value: float, base: float, metric: str, gain: float | None
) -> None:
    found = _compute_gain(value, base, metric)
    assert found == (None if gain is None else pytest.approx(gain))


def test_tasks_with_different_metrics_are_not_averaged(results: SuiteResults) -> None:
    averages = build_suite_data(vary(results, "bm25-qqp", metric="MRR")).averages
    assert {each.labels: bool(each.refusal) for each in averages} == {("BM25",): True, ("random",): False}


def test_evaluations_of_different_kinds_are_named_and_not_averaged(tmp_path: Path) -> None:
    write_suite(tmp_path / "suite", depths={"bm25-qqp": 100, "bm25-mantis": 100})
    same = read_suite_folder(tmp_path / "suite")
    plan = same.studies["bm25-mantis"].plan
    deeper = replace(plan.first_stage, source="the first 1000 documents of a run", depth=1000)
    first, sampled = "the first 100 documents of a run, none added", "sampled, the relevant documents among them"
    for other, said in (
        (plan.first_stage, first),
        (deeper, f"QQP: {first}; MANtIS: the first 1000 documents of a run, none added"),
        (None, f"QQP: {first}; MANtIS: {sampled}"),
    ):
        data, averaged = build_suite_data(vary(same, "bm25-mantis", first_stage=other)), said == first
        refusals = {each.labels: each.refusal for each in data.averages}
        assert (not refusals["BM25",]) == averaged
        assert not refusals["random",]
        scores = build_score_section(data, data.plan.list_rows()[0], "test")
        assert ("average" in scores.header) == averaged
        assert scores.legend.endswith(f"Candidates: {said}.")


numbers = st.floats(0.001, 0.1)
estimates = st.builds(Estimate, numbers, numbers, st.floats(1, 50), st.floats(0, 1), st.floats(1, 500))


@given(st.lists(estimates, min_size=2, max_size=5))
def test_variances_add_up_and_order_does_not_matter(items: list[Estimate]) -> None:
    assert average_estimates(items[:1]) == items[0]
    average, reverse = average_estimates(items), average_estimates(items[::-1])
    assert average == pytest.approx(reverse)
    assert average.error**2 * len(items) ** 2 == pytest.approx(sum(each.error**2 for each in items))
    assert 0 <= average.share <= 1


def test_with_one_part_it_is_the_test_of_welch() -> None:
    """Two tasks with one seed: the sum of two means with unequal variances, with a caution that is small here."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.02, 0.1, 40), rng.normal(0.01, 0.3, 90)
    average = average_estimates([estimate_over_queries(first[None]), estimate_over_queries(second[None])])
    oracle = stats.ttest_ind(first, -second, equal_var=False)
    assert 2 * average.mean / (2 * average.error) == pytest.approx(oracle.statistic)
    assert 1 / (average.share**2 / average.df + (1 - average.share) ** 2 / average.df_more) == pytest.approx(oracle.df)
    assert oracle.pvalue < average.test().p < 1.02 * oracle.pvalue


@pytest.mark.parametrize(("seeds", "deviation"), [(3, 0.0), (3, 0.02), (5, 0.01)])
def test_equal_methods_are_told_apart_at_the_level(seeds: int, deviation: float) -> None:
    """Three tasks of unequal size and noise, no true difference: rejections at .05, within four standard errors."""
    rng, rejected, n = np.random.default_rng(1), 0, 600
    for _ in range(n):
        tasks = [
            estimate_over_both(rng.normal(0, noise, (seeds, queries)) + rng.normal(0, deviation, (seeds, 1)))
            for queries, noise in ((60, 0.2), (100, 0.1), (300, 0.15))
        ]
        rejected += average_estimates(tasks).test().p < 0.05
    assert rejected / n < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5
    assert rejected / n > 0.01


def test_the_largest_part_of_the_seeds_counts_as_too_small() -> None:
    """Satterthwaite's sum over all parts, with that part divided by its low quantile where that leaves fewer."""
    items = [Estimate(0.01, 0.02, 2, 0.5, 199), Estimate(0.03, 0.05, 2, 0.9, 199), Estimate(0.02, 0.01, 4, 0.3, 99)]
    parts = [
        (part * one.error**2, df) for one in items for part, df in ((one.share, one.df), (1 - one.share, one.df_more))
    ]
    for level, quantile in ((0.05, 0.3), (0.01, 0.3 * 0.2**0.6)):
        low = stats.chi2.ppf(quantile, 2) / 2
        inflated = [(part / low, df) if index == 2 else (part, df) for index, (part, df) in enumerate(parts)]
        expected = min(
            sum(part for part, _ in own) ** 2 / sum(part**2 / df for part, df in own) for own in (parts, inflated)
        )
        assert average_estimates(items).df_at(level) == pytest.approx(expected)


def test_rows_are_the_studies_that_differ_in_the_column_only(data: SuiteData) -> None:
    assert [[study.key for study in group] for group in data.plan.list_rows()] == [
        ["bm25-qqp", "bm25-mantis"],
        ["random-qqp", "random-mantis"],
    ]
