"""Power at the differences that `--dry-run --records` prints, on studies drawn from the scores of earlier ones.

python -m benchmarks.statistics.planned [STUDIES]

The printed difference of a pair is computed from its scores in the archive. A drawn study has the pair with this
difference: effects of seeds, effects of queries, and rests, each drawn with replacement from those of the scores. A
drawn rest is one of its query, so queries keep their own spread. Each part is scaled to its variance, since the effects
of ten seeds as they are contain a tenth of the rest, and lack a tenth of their own variance. The share of studies in
which the test for new queries and new seeds finds the difference should be .8 with the variances that the plan takes.
Its variance of the seeds is as often too small as too large. In parentheses is the share with the unbiased one, which
is smaller.

The first table says what it costs to put the pairs of a switched smoothing with the constant one into the family of the
others: how much larger a difference must be to be found, in one family of seven instead of families of five and two.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from analysis.archive import load_scores
from analysis.comparisons.planning import compute_detectable_effects, estimate_from_scores
from analysis.data.score_table import build_score_table
from analysis.stats.power import DifferenceVariance
from analysis.stats.two_way import two_way_anova
from benchmarks.statistics.simulation import (
    Floats,
    Squares,
    estimate_here,
    format_share,
    print_header,
    print_row,
    rejections,
    run_with_count,
)
from records.plan import Plan

STUDIES, ALPHA, SEEDS, QUERIES = 2_000, 0.05, (3, 5, 10), (500, 2_000)
KEPT = ("smoothing-ubuntu-bm25", "smoothing-ubuntu-random", "smoothing-docstrings-bm25", "smoothing-qqp-bm25")
"""Kept studies with ten seeds in which no run collapsed."""
PAIRS = (("T-LS", "LS"), ("T-LS", "BERT"))
_NAMES = ("LS", "T-LS", "WSLS", "T-WSLS")
_BATCH = 50
"""Studies that are drawn at once."""


VARIANTS = [("LS", "BERT"), ("T-LS", "BERT"), ("WSLS", "BERT"), ("T-WSLS", "BERT"), ("T-WSLS", "T-LS")]
SWITCH = [("T-LS", "LS"), ("T-WSLS", "WSLS")]


def make_plan(*families: Sequence[tuple[str, str]]) -> Plan:
    """Return a plan with these families of pairs; without any, with one for each of PAIRS."""
    named = [{"name": str(number), "comparisons": own} for number, own in enumerate(families or [[p] for p in PAIRS])]
    settings = {"study": "planned", "task": "kept", "alpha": ALPHA, "seeds": (1, 2, 3), "metric": "R10@1"}
    return Plan.model_validate({**settings, "systems": ("BERT", *_NAMES), "families": named})


def estimate_without_bias(d: Floats) -> DifferenceVariance:
    """Estimate the variances of differences (seeds, queries); negative estimates are 0."""
    anova = two_way_anova(d)
    seed, query = anova.ms_seed - anova.ms_residual, anova.ms_query - anova.ms_residual
    return DifferenceVariance(max(seed / anova.queries, 0.0), max(query / anova.seeds, 0.0), anova.ms_residual)


def draw_studies(
    d: Floats, variance: DifferenceVariance, seeds: int, queries: int, studies: int, rng: np.random.Generator
) -> Floats:
    """Draw differences (studies, seeds, queries) of mean 0 with the parts of d, scaled to these variances."""
    by_seed, by_query = d.mean(1) - d.mean(), d.mean(0) - d.mean()
    parts = by_seed, by_query, d - by_seed[:, None] - by_query - d.mean()
    a, b, rest = (part * (own / np.mean(part**2)) ** 0.5 for part, own in zip(parts, variance, strict=True))
    chosen = rng.integers(d.shape[1], size=(studies, 1, queries))
    drawn = rest[rng.integers(len(d), size=(studies, seeds, queries)), chosen] + b[chosen]
    return drawn + a[rng.integers(len(d), size=(studies, seeds, 1))]


def measure_power(
    d: Floats, variance: DifferenceVariance, effect: float, seeds: int, queries: int, studies: int
) -> float:
    """Return the share of drawn studies with this true difference in which the test at .05 finds it."""
    rng, found = np.random.default_rng([2618, seeds, queries]), 0
    for start in range(0, studies, _BATCH):
        drawn = draw_studies(d, variance, seeds, queries, min(_BATCH, studies - start), rng) + effect
        found += int(rejections(estimate_here, Squares.from_differences(drawn), ALPHA).sum())
    return found / studies


def compare_families(name: str) -> None:
    """Print a row for each of PAIRS: its detectable difference in its own family and in one of all, and their ratio."""
    table = build_score_table(load_scores(name))
    by_plan = []
    for plan in (make_plan(VARIANTS, SWITCH), make_plan([*VARIANTS, *SWITCH])):
        variances = estimate_from_scores(plan, table).variances
        rows = compute_detectable_effects(plan, variances, len(table.queries), SEEDS)
        by_plan.append({(row.system, row.baseline): row.effects for row in rows})
    for pair in PAIRS:
        both = zip(*(effects[pair] for effects in by_plan), strict=True)
        known = [(own or np.nan, joint or np.nan) for own, joint in both]
        cells = [f"{format_share(own, 4)}, {format_share(joint, 4)} ({joint / own:.2f})" for own, joint in known]
        print_row(name, f"{len(table.queries):,}", " over ".join(pair), *cells)


def main(studies: int) -> None:
    """Print what families cost, and the power at the printed difference of each pair."""
    print("Detectable difference in families of five and two, in one of seven, and the ratio\n")
    print_header("records", "queries", "comparison", *(f"{seeds} seeds" for seeds in SEEDS))
    for name in KEPT:
        compare_families(name)
    plan = make_plan()
    print(
        f"\n{studies:,} studies a share; printed difference: power (power with the unbiased variance between seeds)\n"
    )
    columns = [f"{seeds} seeds, {queries:,} queries" for queries in QUERIES for seeds in SEEDS]
    print_header("records", "comparison", *columns)
    for name in KEPT:
        table = build_score_table(load_scores(name))
        planned = estimate_from_scores(plan, table).variances
        printed = {queries: compute_detectable_effects(plan, planned, queries, SEEDS) for queries in QUERIES}
        for index, (system, baseline) in enumerate(PAIRS):
            d, cells = table.values[system] - table.values[baseline], []
            for queries, seeds in itertools.product(QUERIES, SEEDS):
                effect = printed[queries][index].effects[SEEDS.index(seeds)] or np.nan
                shares = (
                    format_share(measure_power(d, variance, effect, seeds, queries, studies), 2)
                    for variance in (planned[system, baseline], estimate_without_bias(d))
                )
                cells.append("{}: {} ({})".format(format_share(effect, 4), *shares))
            print_row(name, f"{system} over {baseline}", *cells)


if __name__ == "__main__":
    run_with_count(main, STUDIES)
