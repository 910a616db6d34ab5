"""Computes what differences a planned study would find, pair by pair, from scores that already exist."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.archive import load_scores
from analysis.comparisons.interim_results import choose_tested
from analysis.data.configurations import Configuration, mean_and_std
from analysis.data.score_table import ScoreTable, build_score_table
from analysis.data.study_results import Results
from analysis.readers.score_files import read_score_file
from analysis.readers.study_reader import read_folder
from analysis.stats.interim_tests import get_alpha_shares
from analysis.stats.pooled import MAX_SEEDS, Pair, compute_pooled_df
from analysis.stats.power import DifferenceVariance, minimum_detectable_effect
from analysis.stats.variance_components import estimate_variance_components
from records.plan import Phase, Plan, PlannedFamily
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

ARCHIVE = "archive:"
"""What precedes the name of a study of the archive."""


class Pilot(NamedTuple):
    """Variances of the paired differences of systems, estimated from scores that exist.

    Attributes:
        source: what the scores are, in words.
        queries: number of queries that have scores.
        variances: variances of each pair with complete scores of two seeds or more.
    """

    source: str
    queries: int
    variances: dict[Pair, DifferenceVariance]


class DetectableEffect(NamedTuple):
    """Differences that one comparison would find.

    Attributes:
        effects: for each number of seeds the difference that is found with 80 % power. None if the pair has no scores,
            with one seed, or without spread.
    """

    family: str
    system: str
    baseline: str
    effects: list[float | None]


def list_planned_pairs(plan: Plan) -> list[tuple[PlannedFamily, Pair]]:
    """Return the comparisons of trained systems on the test split by the plan's metric, each with its family."""
    families = (family for family in plan.test_families if plan.metric in plan.get_family_metrics(family))
    return [(family, pair) for family in families for pair in family.comparisons if {*pair} <= {*plan.systems}]


def read_pilot(plan: Plan, source: str) -> Pilot:
    """Read the scores of an earlier study and estimate the variances of the planned pairs.

    Args:
        plan: plan of the new study.
        source: folder of a study; a file of scores as `python -m analysis.compare` reads it; or archive:NAME, a study
            of the archive of seeds.

    Raises:
        UserError: if there is no such study or file, or it has no two of the compared systems with two seeds; the
            study of the archive has another metric; or the plan compares no trained systems.
    """
    place = Path(source).expanduser()
    if source.startswith(ARCHIVE):
        pilot = estimate_from_scores(plan, _read_archive(plan, source.removeprefix(ARCHIVE)))
    elif place.is_file():
        pilot = estimate_from_scores(plan, build_score_table(read_score_file(place), source))
        pilot = pilot._replace(source=f"{pilot.source}, taken as {plan.metric}")
    else:
        pilot = estimate_from_results(plan, read_folder(place))
    if not pilot.variances:
        pairs = ", ".join(f"{system} and {baseline}" for _, (system, baseline) in list_planned_pairs(plan))
        if not pairs:
            raise UserError("--records", source, "a study that compares trained systems")
        raise UserError(source, "no such pair with scores of two seeds", f"one of {pairs}, complete")
    return pilot._replace(source=f"{source}: {pilot.source}")


def estimate_from_results(plan: Plan, results: Results) -> Pilot:
    """Estimate the variances of the planned pairs by the plan's metric from the test scores of a study.

    If no pair has complete test scores, those of dev are taken. There, the best configuration stands for its system, as
    it would be chosen.
    """
    results, configurations, chosen, _ = choose_tested(results)

    def estimate(configurations: Iterable[Configuration | None], phase: Phase) -> Pilot:
        values = {c.system: c.evaluate_queries(results.plan, phase, plan.metric) for c in configurations if c}
        return _estimate(plan, values, f"{results.plan.get_split(phase)} scores")

    pilot = estimate(chosen.values(), "test")
    return pilot if pilot.variances else estimate(_choose_on_dev(results.plan, configurations), "search")


def estimate_from_scores(plan: Plan, table: ScoreTable) -> Pilot:
    """Estimate the variances of the planned pairs from a table of scores, which are taken to be the plan's metric."""
    return _estimate(plan, {system: table.get_complete_scores(system) for system in table.values}, "scores")


def compute_detectable_effects(
    plan: Plan, variances: Mapping[Pair, DifferenceVariance], queries: int, seeds: Sequence[int]
) -> list[DetectableEffect]:
    """Compute the minimum detectable effect of each planned pair for several numbers of seeds.

    Each family is corrected by Bonferroni. In a sequential study it is that of the last look, which has its share of
    the level. Where the study pools seeds, they count as the test counts them: those of the pair, or of its family's
    mean where that is larger.
    """
    return [
        DetectableEffect(
            family.name, *pair, [_compute_effect(plan, family, pair, variances, queries, number) for number in seeds]
        )
        for family, pair in list_planned_pairs(plan)
    ]


def _compute_effect(
    plan: Plan,
    family: PlannedFamily,
    pair: Pair,
    variances: Mapping[Pair, DifferenceVariance],
    queries: int,
    number: int,
) -> float | None:
    variance = variances.get(pair)
    if variance is None or number < 2:
        return None
    estimate = variance.estimate(number, queries)
    known = [variances[own] for own in family.comparisons if own in variances]
    if plan.seed_variance == "pooled" and len(known) > 1 and number <= min(MAX_SEEDS, queries) and variance.rest:
        ratio = sum(own.seed / own.rest for own in known if own.rest) / len(known)
        estimate = variance._replace(seed=max(variance.seed, ratio * variance.rest)).estimate(number, queries)
        estimate = estimate._replace(df=compute_pooled_df(family.comparisons, number, queries, plan.shared_beginnings))
    looks = plan.model_copy(update={"confirm_seeds": tuple(range(number))}).looks
    count = len(family.comparisons) * len(plan.get_family_metrics(family))
    return minimum_detectable_effect(estimate, plan.alpha * get_alpha_shares(looks)[-1] / count)


def _read_archive(plan: Plan, name: str) -> ScoreTable:
    scores = load_scores(name)
    (metric,) = scores["metric"].unique()
    if metric != plan.metric:
        raise UserError(f"{ARCHIVE}{name}", f"scores of {metric}", f"of {plan.metric}, the metric of the planned study")
    return build_score_table(scores)


def _estimate(plan: Plan, values: Mapping[str, Floats | None], what: str) -> Pilot:
    known = {name: own for name, own in values.items() if own is not None and min(own.shape) > 1}
    variances = dict[Pair, DifferenceVariance]()
    for _, (system, baseline) in list_planned_pairs(plan):
        if system in known and baseline in known and known[system].shape == known[baseline].shape:
            components = estimate_variance_components([known[system], known[baseline]])
            if components is not None:
                variances[system, baseline] = components.to_difference_variance()
    shapes = {known[name].shape for pair in variances for name in pair}
    seeds, queries = max(shapes, default=(0, 0))
    counted = plan.adapt_to_unit(f"{queries:,} queries")
    return Pilot(f"{what} of {seeds} seeds and {counted}", queries, variances)


def _choose_on_dev(plan: Plan, configurations: Sequence[Configuration]) -> list[Configuration]:
    """Return the best complete configuration of each system."""
    sign = -1 if plan.metric in LOWER_IS_BETTER else 1
    scores = {c: mean_and_std(c.evaluate_queries(plan, "search")) for c in configurations}
    known = {c: sign * score[0] for c, score in scores.items() if score}
    return list({c.system: c for c in sorted(known, key=lambda c: known[c])}.values())
