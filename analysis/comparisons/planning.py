"""Computes what a number of seeds would show, from the scores that a study has on its development set."""

from collections.abc import Sequence

from analysis.data.configurations import collect_configurations
from analysis.data.study_results import Results
from analysis.stats.interim_tests import get_alpha_shares
from analysis.stats.pooled import MAX_SEEDS, compute_pooled_df
from analysis.stats.power import minimum_detectable_effect
from analysis.stats.variance_components import VarianceComponents, estimate_variance_components
from records.plan import Plan
from trainables.utils.arrays import Floats


def estimate_dev_components(results: Results) -> VarianceComponents | None:
    """Estimate the variance components from the first complete configuration of each system on the search split.

    Returns:
        None with one seed, or if fewer than two systems have a complete configuration.
    """
    plan, first = results.plan, dict[str, Floats]()
    for configuration in collect_configurations(results):
        if configuration.system in plan.systems and configuration.system not in first:
            values = configuration.evaluate_queries(plan, "search")
            if values is not None:
                first[configuration.system] = values
    return estimate_variance_components(list(first.values()))


def compute_detectable_effects(
    plan: Plan, components: VarianceComponents, queries: int, seeds: Sequence[int]
) -> list[float | None]:
    """Compute the minimum detectable effect of a headline comparison for several numbers of seeds.

    In a sequential study it is that of the last look, which has its share of the level.

    Args:
        plan: plan of the study; its headline family is corrected by Bonferroni.
        components: variance components of a system's scores.
        queries: number of test queries.
        seeds: numbers of seeds.

    Returns:
        For each number of seeds the difference that is found with 80 % power. None with one seed, or without spread.
    """
    count = len(plan.headline.comparisons) * len(plan.get_family_metrics(plan.headline))
    variance = components.to_difference_variance()

    def compute(number: int) -> float | None:
        looks = plan.model_copy(update={"confirm_seeds": tuple(range(number))}).looks
        estimate = variance.estimate(number, queries)
        if plan.seed_variance == "pooled" and number <= MAX_SEEDS:
            df = compute_pooled_df(plan.headline.comparisons, number, queries)
            estimate = estimate._replace(df=df)
        return minimum_detectable_effect(estimate, plan.alpha * get_alpha_shares(looks)[-1] / count)

    return [compute(number) if number > 1 else None for number in seeds]
