"""The conclusion in a sentence: what won, its population, how sure it is, and the bounds of an undecided difference."""

from pathlib import Path

import numpy as np
import pytest

from analysis.rendering.cells import format_p_value
from analysis.rendering.conclusion import write_conclusion
from analysis.rendering.summary import answer_questions
from tests.analysis.builders import Made, analyse, get_comparison, scores, study_runs


def test_losses_are_marked(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    for run in runs:
        if run.variant == "T-WSLS":
            run.scores["test"] = scores("test", 60, -1.0, int(run.id[:8], 16))
    analysis = analyse(tmp_path, runs)
    assert {row.system: row.marks for row in analysis.table.rows}["T-WSLS"] == "▼▽"
    assert "T-WSLS is significantly worse than BERT" in write_conclusion(analysis)


def test_a_baseline_that_is_worse_than_a_reference_is_named(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    assert "itself" not in write_conclusion(analyse(tmp_path / "usual", runs))
    for quality, verdict, said in (
        (6.0, "worse", "is significantly worse than BM25 on new queries and new seeds"),
        (1.7, "undecided", "has a worse mean than BM25, though not significantly on new queries and new seeds"),
    ):
        for run in runs:
            if run.variant == "BM25":
                run.scores["test"] = scores("test", 60, quality, 1)
        analysis = analyse(tmp_path / verdict, runs)
        c = get_comparison(analysis, "BERT", "BM25")
        p = format_p_value(c.adjusted["bonferroni"])
        assert c.verdict == verdict
        assert write_conclusion(analysis).endswith(f". BERT itself {said} ({c.difference:+.4f}, corrected p {p}).")


@pytest.mark.parametrize("seeds", [(1, 2), (1, 2, 3, 4, 5, 6)], ids=len)
def test_without_a_difference_the_answer_says_what_would_have_been_seen(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    runs = [Made(name, seed, 1.5, e, s, tested=True) for name, e, s in (
        ("BERT", 0.0, None), ("LS", 0.2, None), ("T-LS", 0.2, 0.5), ("WSLS", 0.2, None), ("T-WSLS", 0.2, 0.5)
    ) for seed in seeds]  # fmt: skip
    for run in runs:
        run.scores = {split: scores(split, 50, 1.5, run.seed or 0) for split in ("dev", "test")}
    analysis = analyse(tmp_path, runs, seeds=list(seeds))
    assert all(c.targets["queries"] and c.targets["queries"].p == 1.0 for c in analysis.comparisons[:5])
    sample = f"with 50 queries and {len(seeds)} seeds"
    assert write_conclusion(analysis).startswith(f"No variant differs significantly from BERT {sample}")
    assert {c.verdict for c in analysis.comparisons[:5]} == {"all values are equal"}
    assert "All values are equal to those of BERT: LS, T-LS, WSLS, T-WSLS." in write_conclusion(analysis)
    assert all(": all values are equal" in line for line in answer_questions(analysis)[2][1][1:])
    for number, run in enumerate(runs):
        run.scores["test"] = scores("test", 50, 1.5, number)
    analysis = analyse(tmp_path / "noisy", runs, seeds=list(seeds))
    middle = float(np.median([c.detectable for c in analysis.comparisons if c.baseline == "BERT"]))
    assert (middle > 1) == (len(seeds) == 2)  # of two seeds the spread is next to unknown
    counts = f"50 queries, estimated from {len(seeds)} seeds"
    limit = f"minimum detectable effect: about {middle:.4f} (80 % power, {counts})"
    if middle > 1:
        limit = f"the study has less than 80 % power even for the largest possible gain ({counts})"
    intervals = [c.interval for c in analysis.comparisons if c.baseline == "BERT" and c.interval]
    low, high = min(low for low, _ in intervals[:4]), max(high for _, high in intervals[:4])
    bounds = f": any gain on new queries and new seeds is at most {high:.4f}, any loss at most {-low:.4f}"
    if max(-low, high) > 1:  # no difference is larger
        bounds = ""
    assert (not bounds) == (len(seeds) == 2)
    assert write_conclusion(analysis) == f"No variant differs significantly from BERT{bounds}; {limit}."


@pytest.mark.parametrize("metric", ["R10@1", "position"])
def test_the_answer_says_how_large_an_undecided_difference_can_be(tmp_path: Path, metric: str) -> None:
    runs = study_runs(seeds=(1, 2, 3, 4), grid=False)
    for run in runs:
        if run.variant == "T-WSLS":
            run.scores["test"] = scores("test", 60, 1.5, 50 + (run.seed or 0))
    analysis = analyse(tmp_path, runs, seeds=[1, 2, 3, 4], metric=metric)
    compared = [c for c in analysis.comparisons if c.baseline == "BERT" and c.interval]
    assert [c.verdict for c in compared] == ["undecided"] * 4
    above, below = max(c.interval[1] for c in compared), -min(c.interval[0] for c in compared)
    gain, loss = (above, below) if metric == "R10@1" else (below, above)  # the best position is 1
    said = f"any gain on new queries and new seeds is at most {gain:.4f}, any loss at most {loss:.4f}; "
    assert f"No variant differs significantly from BERT: {said}" in write_conclusion(analysis)
    for run in runs:
        if run.variant == "LS":
            run.scores["test"] = scores("test", 60, -1.0, run.seed or 0)
    analysis = analyse(tmp_path / "one", runs, seeds=[1, 2, 3, 4], metric=metric)
    assert "; with 60 queries and 4 seeds. Undecided: T-LS, WSLS, T-WSLS (any gain on new" in write_conclusion(analysis)


def test_a_variant_that_is_equivalent_is_named_with_the_margin(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, study_runs(seeds=(1, 2, 3, 4), grid=False), seeds=[1, 2, 3, 4], margin=0.9)
    ls = analysis.comparisons[0]
    assert (ls.system, ls.verdict) == ("LS", "equivalent")
    said = f"LS is equivalent to BERT on new queries and new seeds ({ls.difference:+.4f}, margin 0.9)"
    assert said in write_conclusion(analysis)


FURTHER_LOSSES = [["LS", "BERT"], ["T-LS", "BERT"], ["WSLS", "LS"], ["T-WSLS", "T-LS"]]
"""Pairs of a study of several losses: each system with the unsmoothed form of its loss."""


def test_the_conclusion_and_the_marks_are_about_the_first_comparison_of_each_system(tmp_path: Path) -> None:
    family = {"name": "variants", "correction": "bonferroni", "comparisons": FURTHER_LOSSES}
    seeds = (1, 2, 3, 4, 5)
    analysis = analyse(tmp_path, study_runs(seeds, grid=False), families=[family], seeds=list(seeds))
    marks = {row.system: row.marks for row in analysis.table.rows}
    assert marks["T-WSLS"] == "▲"
    assert analysis.results.plan.mark_baselines == ["BERT for LS and T-LS; LS for WSLS; T-LS for T-WSLS"]
    assert write_conclusion(analysis).startswith(
        "T-WSLS is significantly better than T-LS on new queries and new seeds"
    )
    assert "Undecided: LS, T-LS, WSLS (any gain" in write_conclusion(analysis)
    certainty = dict(answer_questions(analysis))["How sure is that?"]
    assert certainty[0].startswith("Difference from the baseline, 95 % interval")
    assert certainty[1].startswith("T-WSLS from T-LS +")


def test_values_of_the_baseline_itself_are_marked_against_its_first_value(tmp_path: Path) -> None:
    """LS is another loss of BERT, T-LS and T-WSLS are smoothed, as search.compare = "loss" plans them."""
    pairs = [["LS", "BERT"], ["T-LS", "BERT"], ["T-WSLS", "LS"]]
    family = {"name": "variants", "correction": "bonferroni", "comparisons": pairs}
    systems = {"BERT": ("none", "a"), "LS": ("none", "b"), "T-LS": ("smooth", "a"), "T-WSLS": ("smooth", "b")}
    compared = {"hyperparameter": "loss", "systems": {k: {"variant": v, "value": w} for k, (v, w) in systems.items()}}
    runs = [run for run in study_runs(grid=False) if run.variant != "WSLS"]
    analysis = analyse(tmp_path, runs, families=[family], compared=compared, systems=list(systems))
    assert analysis.results.plan.mark_baselines == ["BERT for LS; none with the same loss for T-LS and T-WSLS"]
    assert {row.system: row.marks for row in analysis.table.rows}["T-WSLS"] == "▲"
    assert write_conclusion(analysis).startswith("T-WSLS is significantly better than LS on new queries and new seeds")
