"""The comparisons of a plan, family by family."""

from collections.abc import Callable

from analysis.data.configurations import Configuration
from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.interim_tests import combine_interim_tests, compare_at_interim_test
from analysis.stats.paired_tests import differences_or_none, vary_over_seeds
from records.plan import Plan, PlannedFamily
from trainables.utils.arrays import Floats

Evaluate = Callable[[str, str, str], Floats | None]
"""System, phase and metric -> (seeds, queries) values, (1, queries) without seeds, or None if they are incomplete."""


def compare_systems(plan: Plan, chosen: dict[str, Configuration | None]) -> list[Comparison]:
    """Compare the pairs of a plan on the split of their family, by each of its metrics.

    The comparisons are in the plan's order of families, pairs and metrics.
    """
    evaluate = make_evaluate(plan, chosen)
    return [c for family in plan.families for c in compare_planned_family(plan, family, evaluate)]


def make_evaluate(plan: Plan, chosen: dict[str, Configuration | None]) -> Evaluate:
    """Return a function that evaluates the chosen configuration of a system with the plan's seeds of a phase."""

    def evaluate(system: str, phase: str, metric: str) -> Floats | None:
        configuration = chosen[system]
        return configuration.evaluate_queries(plan, phase, metric) if configuration else None

    return evaluate


def compare_planned_family(plan: Plan, family: PlannedFamily, evaluate: Evaluate) -> list[Comparison]:
    """Compare the pairs of one family; in a sequential study those on the test split over all looks so far."""
    settings = make_settings(plan, family)
    if not is_sequential(plan, family):
        return compare_family(build_family(plan, family, evaluate), settings)
    n_taken = plan.looks_taken or len(plan.looks)
    by_look = [
        compare_at_interim_test(build_family(plan, family, evaluate, seeds), look, plan.looks, settings)
        for look, seeds in enumerate(plan.looks[:n_taken])
    ]
    return combine_interim_tests(by_look, plan.looks, settings)


def is_sequential(plan: Plan, family: PlannedFamily) -> bool:
    """Return whether a family is compared at several looks, so that its verdicts are over the looks."""
    return plan.group_size is not None and family.phase == "test"


def make_settings(plan: Plan, family: PlannedFamily) -> ComparisonSettings:
    """Return the settings that decide the comparisons of a family."""
    return ComparisonSettings(plan.alpha, family.correction, plan.margin, seeds=plan.seed_variance)


def build_family(plan: Plan, family: PlannedFamily, evaluate: Evaluate, n_seeds: int | None = None) -> ComparisonFamily:
    """Build a family of comparisons with its differences.

    Args:
        plan: plan of the study.
        family: one of the plan's families.
        evaluate: returns the values of a system.
        n_seeds: number of seeds, the first ones. If None, all.
    """
    known: dict[tuple[str, str], Floats | None] = {}

    def get(system: str, metric: str) -> Floats | None:
        if (system, metric) not in known:
            values = evaluate(system, family.phase, metric)
            known[system, metric] = values if values is None else values[:n_seeds]
        return known[system, metric]

    requested = [
        (system, other, metric) for system, other in family.comparisons for metric in plan.get_family_metrics(family)
    ]
    pairs = [
        (system, other, differences_or_none(get(system, metric), get(other, metric)))
        for system, other, metric in requested
    ]
    poolable = [
        vary_over_seeds(get(system, metric), get(other, metric))
        and not plan.is_exploratory((system, other))  # what is added later must not change what was declared
        for system, other, metric in requested
    ]
    return ComparisonFamily(
        family.name,
        plan.task,
        plan.metric,
        pairs,
        [metric for *_, metric in requested],
        plan.is_correlation,
        None if family.phase == "test" else plan.get_split(family.phase),
        poolable,
        plan.shared_beginnings,
    )


def select_headline_comparisons(plan: Plan, compared: list[Comparison]) -> list[Comparison]:
    """Return the comparisons of the headline's family by the plan's metric."""
    metrics = plan.get_family_metrics(plan.headline)
    shown = plan.metric if plan.metric in metrics else metrics[0]
    return [c for c in compared if (c.family, c.metric) == (plan.headline.name, shown)]
