"""The first screen: every sentence that it can say, with the numbers of the data."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.compare import compare
from analysis.rendering.answer import Answer, Finding, Sample, build_answer, write_sentence
from analysis.rendering.conclusion import answer_study, describe_sample, list_warnings
from analysis.rendering.result_table import ComparisonResult, build_result_document
from analysis.stats.comparison import ComparisonSettings
from analysis.stats.power import required_growth
from analysis.stats.variance_components import VarianceComponents
from analysis.suites.comparisons import build_suite_data
from analysis.suites.suite_results import read_suite_folder
from analysis.suites.tables import answer_suite
from tests.analysis.builders import Made, analyse, get_comparison, scores, study_runs
from tests.analysis.suites.builders import write_suite

SEEDS = (1, 2, 3, 4)
GAINS = {"BERT": 0.0, "LS": 0.1, "T-LS": -0.1, "WSLS": 0.0}


def draw(gains: dict[str, float], seeds: int = 4, queries: int = 60, noise: float = 0.05) -> pd.DataFrame:
    """Scores of systems with these true gains."""
    rng = np.random.default_rng(1)
    level = rng.normal(0.5, 0.2, queries)
    rows = [
        (name, seed, query, level[query] + gain + rng.normal(0, noise))
        for name, gain in gains.items()
        for seed in range(seeds)
        for query in range(queries)
    ]
    return pd.DataFrame(rows, columns=["system", "seed", "query", "value"])


def ask(
    frame: pd.DataFrame, baselines: tuple[str, ...] = ("BERT",), **settings: object
) -> tuple[Answer, ComparisonResult]:
    result = compare(frame, baselines, ComparisonSettings(**settings))  # type: ignore[arg-type]
    return build_result_document(result).answer, result


def bounds(result: ComparisonResult, system: str) -> tuple[float, float, float]:
    """The difference of a system from its first baseline, and its interval."""
    found = next(c for c in result.comparisons if c.system == system)
    assert found.difference is not None
    assert found.interval
    return found.difference, *found.interval


def test_better_and_worse_have_the_size_of_the_gain_or_loss_and_its_bounds() -> None:
    answer, result = ask(draw({"BERT": 0.0, "LS": 0.1, "T-LS": -0.1}))
    (gain, *up), (loss, *down) = bounds(result, "LS"), bounds(result, "T-LS")
    assert answer.sentence == (
        f"LS is better than BERT by {gain:.4f} (95 % interval {up[0]:.4f} to {up[1]:.4f}). "
        f"T-LS is worse than BERT by {-loss:.4f} (95 % interval {-down[1]:.4f} to {-down[0]:.4f})."
    )
    assert gain > 0 > loss


def test_several_better_systems_are_one_list() -> None:
    answer, result = ask(draw({"BERT": 0.0, "LS": 0.1, "T-LS": 0.2}))
    parts = [
        f"{name} by {mean:.4f} ({low:.4f} to {high:.4f})"
        for name in ("LS", "T-LS")
        for mean, low, high in [bounds(result, name)]
    ]
    assert answer.sentence == f"Better than BERT, with 95 % intervals: {', '.join(parts)}."


def test_where_smaller_is_better_the_verdicts_turn_and_the_table_says_so() -> None:
    answer, result = ask(draw({"BERT": 0.0, "LS": 0.1, "WSLS": 0.0}), less_is_better=True)
    mean, low, high = bounds(result, "LS")
    assert answer.sentence.startswith(
        f"LS is worse than BERT by {mean:.4f} (95 % interval {low:.4f} to {high:.4f}). Undecided for WSLS"
    )
    assert "lower is better)." in answer.sentence
    assert answer.table.header[1] == "value ± sd, lower is better"


def test_an_equivalent_system_is_named_with_the_margin() -> None:
    answer, result = ask(draw({"BERT": 0.0, "LS": 0.0, "T-LS": 0.0}), margin=0.05)
    assert [c.verdict for c in result.comparisons] == ["equivalent"] * 2
    assert answer.sentence == "Equivalent to BERT within 0.05: LS and T-LS."
    assert "beyond the margin" not in answer.line


def test_an_interval_beyond_the_margin_is_explained() -> None:
    sample = Sample("value", 4, 60, 1, 0.05, "bonferroni", margin=0.05)
    finding = Finding("LS", "BERT", 0.01, (-0.04, 0.06), "equivalent", "both")
    line = build_answer([finding], {"BERT": (0.5, 0.1), "LS": (0.51, 0.1)}, sample).line
    assert "Equivalence has one-sided tests, so an interval may reach a little beyond the margin." in line


def test_a_null_result_has_the_bounds_of_all_and_what_a_larger_study_needs() -> None:
    answer, result = ask(draw({"BERT": 0.0, "LS": 0.0, "T-LS": 0.0, "WSLS": 0.0}))
    intervals = [c.interval for c in result.comparisons if c.interval]
    low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
    first, _, rest = answer.sentence.partition(" This study ")
    assert first == (
        "Undecided for LS, T-LS and WSLS: each true difference from BERT can be anything from "
        f"{low:+.4f} to {high:+.4f} (95 % bounds for all 3 comparisons)."
    )
    said = re.fullmatch(r"can detect differences of about (\S+) with 80 % power; (\S+) would take about .*\.", rest)
    assert said
    effect = float(np.median([c.detectable for c in result.comparisons]))
    assert float(said[1]) == pytest.approx(effect, rel=0.06)
    assert float(said[2]) == pytest.approx(effect / 2, rel=0.35)


def test_detectable_differences_that_vary_between_comparisons_have_their_range() -> None:
    findings = [
        Finding(name, "BM25", 0.01, (-0.1, 0.1), "undecided", "queries", detectable)
        for name, detectable in (("RM3", 0.0657), ("TAS-B", 0.1579), ("ada2", 0.1567))
    ]
    sample = Sample("nDCG@10", 1, 43, 3, 0.05, "bonferroni")
    sentence = build_answer(findings, {}, sample).sentence
    assert sentence.endswith("differences of about 0.16 with 80 % power (0.066 to 0.16 by comparison).")
    alike = build_answer(findings[1:], {}, sample).sentence
    assert alike.endswith("differences of about 0.16 with 80 % power.")


def test_one_undecided_system_has_its_own_bounds_behind_the_decided_ones() -> None:
    answer, result = ask(draw({"BERT": 0.0, "LS": 0.1, "WSLS": 0.0}))
    _, low, high = bounds(result, "WSLS")
    said = (
        f"Undecided for WSLS: the true difference from BERT can be anything from {low:+.4f} to {high:+.4f} (95 % bounds"
    )
    assert answer.sentence.startswith("LS is better than BERT by ")
    assert said in answer.sentence


def test_baselines_are_named_where_there_are_several() -> None:
    answer, _ = ask(draw({"BERT": 0.0, "LS": 0.0, "T-LS": 0.1, "WSLS": 0.1}), ("BERT", "LS"))
    assert answer.table.header[1] == "versus"
    assert "Better than BERT, with 95 % intervals: T-LS by " in answer.sentence
    assert "Better than LS, with 95 % intervals: T-LS by " in answer.sentence
    undecided, _ = ask(draw(dict.fromkeys(GAINS, 0.0)), ("BERT", "LS"))
    assert undecided.sentence.startswith(
        "Undecided for T-LS and WSLS with BERT; T-LS and WSLS with LS: each true difference can be anything from "
    )


def test_systems_with_the_values_of_the_baseline_are_called_equal() -> None:
    frame = draw({"BERT": 0.0, "LS": 0.0})
    copy = frame[frame["system"] == "BERT"].assign(system="T-LS")
    answer, _ = ask(pd.concat([frame, copy]))
    assert "Equal in every value to BERT: T-LS. Undecided for LS" in answer.sentence


def test_an_incomplete_system_is_named_and_has_no_numbers() -> None:
    frame = draw({"BERT": 0.0, "LS": 0.1, "T-LS": 0.1})
    answer, _ = ask(frame[(frame["system"] != "T-LS") | (frame["seed"] != 2)])
    assert answer.sentence.endswith("Not compared, because incomplete: T-LS.")
    assert next(row for row in answer.table.rows if row[0] == "T-LS")[1:] == ["incomplete"] * 2 + ["-", "not compared"]
    alone, _ = ask(frame[((frame["system"] != "T-LS") | (frame["seed"] != 2)) & (frame["system"] != "LS")])
    assert alone.sentence == "No conclusion: no comparison is complete. Not compared, because incomplete: T-LS."


@pytest.mark.parametrize(
    ("size", "verdict", "limit", "tested"),
    [
        (
            {"seeds": 1},
            "better (these runs)",
            "these trained models",
            "queries, not for new seeds, with 60 queries and 1",
        ),
        ({"queries": 1}, "better (these queries)", "these queries", "seeds, not for new queries, with 4"),
    ],
)
def test_one_seed_or_one_query_limits_what_is_said(size: dict[str, int], verdict: str, limit: str, tested: str) -> None:
    answer, _ = ask(draw({"BERT": 0.0, "LS": 1.0}, **size))
    assert answer.sentence.endswith(f"). This holds for {limit} only.")
    assert answer.table.rows[1][-1] == verdict
    assert answer.line.startswith(f"Tested for new {tested} seed")


def test_the_table_has_each_system_once_for_each_comparison() -> None:
    frame = draw(GAINS)
    answer, result = ask(frame)
    by_seed = frame.groupby(["system", "seed"])["value"].mean().groupby("system")
    assert answer.table.header == ["system", "value ± sd", "difference", "95 % interval", "verdict"]
    assert answer.table.rows[0][2:] == ["-", "-", "baseline"]
    for row, c in zip(answer.table.rows[1:], result.comparisons, strict=True):
        mean, sd = by_seed.mean()[c.system], by_seed.std()[c.system]
        assert row[:3] == [c.system, f"{mean:.4f} ± {sd:.4f}", f"{c.difference:+.4f}"]
        assert row[3:] == [f"[{c.interval[0]:+.4f}, {c.interval[1]:+.4f}]", c.verdict]
    assert "Intervals and verdicts hold for all 3 comparisons at once (Bonferroni)." in answer.line
    assert "by holm, intervals by Bonferroni." in ask(frame, correction="holm")[0].line


OPEN = Finding("LS", "BERT", 0.01, (-0.03, 0.05), "undecided", "both", 0.02)
WON = Finding("T-LS", "BERT", 0.2, (0.1, 0.3), "better", "both", 0.02)
VARIANCE = VarianceComponents(1e-4, 0.01, 0.02)


def say(*findings: Finding, scores: dict | None = None, **changes: object) -> Answer:
    sample = Sample("MAP", 4, 500, max(len(findings), 1), 0.05, "bonferroni", largest=1.0, variance=VARIANCE)
    return build_answer(findings, scores or {}, replace(sample, **changes))


def test_the_level_is_said_everywhere() -> None:
    answer = say(OPEN, WON, alpha=0.1)
    assert "(90 % interval 0.1000 to 0.3000)" in answer.sentence
    assert "(90 % bounds for both comparisons)" in answer.sentence
    assert answer.table.header[-2] == "90 % interval"
    assert "95" not in answer.sentence + answer.line + "".join(answer.table.header)


@pytest.mark.parametrize(("count", "words"), [(1, ""), (2, "both comparisons"), (3, "all 3 comparisons")])
def test_how_many_are_corrected_is_said_from_two_on(count: int, words: str) -> None:
    answer = say(OPEN, comparisons=count)
    assert (f"% bounds for {words})" if words else "% bounds)") in answer.sentence
    assert ("at once" in answer.line) == bool(words)
    if words:
        assert f"Intervals and verdicts hold for {words} at once (Bonferroni)." in answer.line
    assert answer.line in answer.table.caption
    assert "  " not in answer.line


@pytest.mark.parametrize(("margin", "smaller"), [(None, "0.01"), (0.005, "0.005"), (0.05, "0.01")])
def test_a_larger_study_is_one_for_the_margin_or_half_of_what_this_one_detects(margin, smaller) -> None:
    variance, level = VARIANCE.to_difference_variance(), 0.05
    seeds, queries = required_growth(variance, 0.02, float(smaller), 4, 500, level)
    (told,) = re.findall(rf"0.020 with 80 % power; {smaller} would take about ([\d,]+) seeds and ([\d,]+) queries", say(
        OPEN, margin=margin).sentence)  # fmt: skip
    for number, needed in zip(told, (seeds, queries), strict=True):
        assert needed <= int(number.replace(",", "")) < 1.1 * needed + 1


def test_what_the_study_detects_is_said_once_in_the_sentence_or_in_the_line() -> None:
    assert "can detect" in say(OPEN).sentence
    assert "can detect" not in say(OPEN).line
    assert "can detect" not in say(WON).sentence
    assert say(WON).line.endswith("This study can detect differences of about 0.020 with 80 % power.")


@pytest.mark.parametrize("interval", [(-2.0, 0.1), (-0.1, 2.0), (-2.0, 2.0)])
def test_bounds_beyond_what_is_possible_bound_nothing(interval) -> None:
    assert "nothing bounds the true difference from BERT" in say(OPEN._replace(interval=interval)).sentence


def test_of_many_names_the_first_ones_are_said_and_the_others_counted() -> None:
    named = [OPEN._replace(system=f"S{number}") for number in range(12)]
    (rest,) = re.findall(r"and (\d+) more", say(*named).sentence)
    assert [f.system in say(*named).sentence for f in named].count(True) == 12 - int(rest)
    pairs = [own._replace(baseline=f"B{place % 2}") for place, own in enumerate(named)]
    (rest,) = re.findall(r"and (\d+) more", say(*pairs).sentence)
    assert len(re.findall(r"\bS\d+", say(*pairs).sentence)) == 12 - int(rest)
    better = say(*(WON._replace(system=f"S{number}") for number in range(8))).sentence
    assert better.count(" by ") == 6
    assert " and 2 more." in better


@pytest.mark.parametrize(("sd", "header"), [(None, "MAP"), (0.1, "MAP ± sd")])
def test_a_deviation_over_seeds_is_named_where_there_is_one(sd, header) -> None:
    answer = say(WON, scores={"BERT": (0.5, sd), "T-LS": (0.7, sd)})
    assert answer.table.header[1] == header
    assert ("deviation over seeds" in answer.table.caption) == (sd is not None)


def test_a_study_counts_and_corrects_the_comparisons_of_its_headline_alone(tmp_path: Path) -> None:
    runs = study_runs(SEEDS, grid=False)
    pairs = [["LS", "BERT"], ["T-LS", "BERT"]]
    headline = {"name": "variants", "correction": "holm", "comparisons": pairs, "metrics": ["R10@1", "MAP"]}
    sanity = {"name": "sanity", "correction": "bonferroni", "comparisons": [["BERT", "BM25"]]}
    sample = describe_sample(analyse(tmp_path, runs, seeds=[*SEEDS], families=[headline, sanity]))
    assert (sample.comparisons, sample.correction) == (4, "holm")


def test_findings_with_different_metrics_have_no_common_bounds() -> None:
    sample = Sample("", 0, 0, 2, 0.05, "bonferroni")
    own = [Finding(f"LS ({task})", "BERT", 0.1, (-9.0, 9.0), "undecided", "both") for task in ("QQP", "STS")]
    assert write_sentence(own, sample) == "Undecided for LS (QQP) and LS (STS)."


def null_runs(seeds: tuple[int, ...] = SEEDS, queries: int = 60) -> list[Made]:
    """Runs of equally good systems."""
    settings = (("BERT", 0.0, None), ("LS", 0.2, None), ("T-LS", 0.2, 0.5), ("WSLS", 0.2, None), ("T-WSLS", 0.2, 0.5))
    runs = [Made(name, seed, 1.5, e, s, tested=True) for name, e, s in settings for seed in seeds]
    for number, run in enumerate(runs):
        run.scores = {split: scores(split, queries, 1.5, number) for split in ("dev", "test")}
    return runs


def test_the_sentence_of_a_study_is_about_its_headline_and_its_table_has_the_references(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, study_runs(SEEDS, grid=False), seeds=[*SEEDS], margin=0.9)
    answer, c = answer_study(analysis), get_comparison(analysis, "T-WSLS", "BERT")
    assert c.interval
    said = (
        f"T-WSLS is better than BERT by {c.difference:.4f} (95 % interval {c.interval[0]:.4f} to {c.interval[1]:.4f})."
    )
    assert answer.sentence.startswith(said)
    assert "Equivalent to BERT within 0.9: LS, T-LS and WSLS." in answer.sentence
    assert " ".join(row[0] for row in answer.table.rows) == "BERT LS T-LS WSLS T-WSLS T-WSLS BM25 untrained"
    assert [row[-1] for row in answer.table.rows[-2:]] == ["reference"] * 2
    means = {row.system: row.test for row in analysis.table.rows}
    for row in answer.table.rows[:-2]:
        assert row[2] == "{:.4f} ± {:.4f}".format(*means[row[0]] or ())


@pytest.mark.parametrize(
    ("fresh", "grid", "said"),
    [
        ((), False, "4 seeds, by which nothing was chosen."),
        ((), True, "4 seeds. Their dev scores chose the configurations: part of a gain may be luck."),
        ((11, 12), False, "2 fresh seeds, which no choice has seen."),
        ((1, 11), False, "2 seeds, 1 of them those of the search, by which nothing was chosen."),
    ],
)
def test_the_line_says_whether_the_seeds_were_fresh(
    tmp_path: Path, fresh: tuple[int, ...], grid: bool, said: str
) -> None:
    runs = [run for run in study_runs(SEEDS, grid=grid) if run.variant != "BM25"]
    for seed in {*fresh} - {*SEEDS}:
        runs += [replace(run, seed=seed, role="confirm") for run in study_runs((1,), grid=False) if run.seed]
    if fresh:
        for run in runs:
            if run.seed not in fresh:
                run.scores = {"dev": run.scores["dev"]}
    analysis = analyse(tmp_path, runs, seeds=[*SEEDS], confirm_seeds=[*fresh])
    assert f"with 60 test queries and {said}" in answer_study(analysis).line


def test_with_two_seeds_nothing_is_bound(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, null_runs((1, 2)), seeds=[1, 2])
    answer = answer_study(analysis)
    assert "with so little data nothing bounds the true differences." in answer.sentence
    assert answer.sentence.endswith("This study has less than 80 % power even for the largest possible difference.")


def test_without_test_scores_the_table_has_the_search(tmp_path: Path) -> None:
    runs = study_runs((1,), grid=False)
    for run in runs:
        run.scores.pop("test", None)
    analysis = analyse(tmp_path, runs, seeds=[1])
    answer = answer_study(analysis)
    assert answer.sentence == "No conclusion yet: no run has test scores."
    assert list_warnings(analysis) == []  # such as that a system is incomplete
    assert answer.table.header[-2:] == ["dev R10@1", "configuration"]
    assert "owes part of its score to chance" in answer.line


def test_a_sequential_study_says_at_which_look_it_is(tmp_path: Path) -> None:
    changes = {"seeds": [*SEEDS], "confirm_seeds": [*SEEDS], "group_size": 2}
    answer = answer_study(analyse(tmp_path, null_runs(), **changes))
    assert "by which nothing was chosen (look 2 of at most 2)." in answer.line
    assert "would take" not in answer.sentence + answer.line


def test_a_metric_of_positions_is_better_where_it_is_lower(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, study_runs(SEEDS, grid=False), seeds=[*SEEDS], metric="position")
    c = get_comparison(analysis, "T-WSLS", "BERT")
    assert c.difference is not None
    assert c.difference < 0
    assert c.interval
    assert answer_study(analysis).sentence.startswith(
        f"T-WSLS is better than BERT by {-c.difference:.4f} "
        f"(95 % interval {-c.interval[1]:.4f} to {-c.interval[0]:.4f})."
    )
    assert "position ± sd, lower is better" in answer_study(analysis).table.header


def test_a_baseline_that_is_worse_than_a_reference_is_named_without_a_verdict(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    assert list_warnings(analyse(tmp_path / "usual", runs)) == []
    for run in runs:
        if run.variant == "BM25":
            run.scores["test"] = scores("test", 60, 6.0, 1)
    analysis = analyse(tmp_path / "weak", runs)
    c = get_comparison(analysis, "BERT", "BM25")
    assert list_warnings(analysis) == [f"The baseline BERT has a worse mean than BM25 ({c.difference:+.4f})."]


def test_a_comparison_that_was_added_late_is_called_exploratory(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, study_runs(grid=False), exploratory=[["T-WSLS", "BERT"]], version=2)
    answer = answer_study(analysis)
    assert answer.sentence.startswith("T-WSLS (exploratory) is better than BERT by ")
    assert [row[-1] for row in answer.table.rows if "exploratory" in row[-1]] == ["better (exploratory)"]


def test_a_suite_is_about_its_averages_or_else_about_all_comparisons(tmp_path: Path) -> None:
    write_suite(tmp_path / "suite")
    data = build_suite_data(read_suite_folder(tmp_path / "suite"))
    averages = answer_suite(data)
    best = next(each for each in data.averages if each.verdict == "better")
    assert best.interval
    size = f"{best.difference:.4f} ({best.interval[0]:.4f} to {best.interval[1]:.4f})"
    assert f"{best.system} ({', '.join(best.labels)}) by {size}" in averages.sentence
    assert [row[-1] for row in averages.table.rows] == [each.verdict for each in data.averages]
    assert "in 4 of 4 studies; nothing was chosen by the scores of their seeds." in averages.line
    alone = answer_suite(replace(data, averages=[]))
    assert [row[-1] for row in alone.table.rows] == [each.verdict for each in data.comparisons]
    for row, each in zip(alone.table.rows, data.comparisons, strict=True):
        assert each.interval
        assert each.comparison.interval
        assert row[-2] == f"[{each.interval[0]:+.4f}, {each.interval[1]:+.4f}]"
        assert each.interval[1] > each.comparison.interval[1]  # for all comparisons of the suite, not of one study


@pytest.mark.parametrize(("chosen", "said"), [(1, " in 1 of them."), (4, ".")])
def test_a_suite_says_in_how_many_studies_the_tested_seeds_chose_something(
    chosen: int, said: str, tmp_path: Path
) -> None:
    write_suite(tmp_path / "suite")
    data = build_suite_data(read_suite_folder(tmp_path / "suite"))
    reports = dict(data.reports)
    for key in list(reports)[:chosen]:
        results = reports[key].results
        plan = results.plan.model_copy(update={"settings": {"training": {"checkpoint": "best"}}})
        reports[key] = replace(reports[key], results=replace(results, plan=plan))
    assert f"; their seeds are those of the search{said}" in answer_suite(replace(data, reports=reports)).line
