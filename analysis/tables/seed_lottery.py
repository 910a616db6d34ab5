"""Table of systems with a run that looks collapsed: how bad a seed can be, and how probable a fresh bad one is."""

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.data.configurations import Configuration, evaluate_run
from analysis.stats.outlying_runs import OutlyingRun
from analysis.tables.section import Section
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats

_LEGEND = (
    "{metric} of the seeds: the worst, the quantile of the worst tenth, and the median. Worse than {bar}: seeds with a "
    "worse mean than {bar} ({level:.4f}). Fresh seed: probability that a fresh seed is worse than {bar}, with its 95 % "
    "interval (Clopper and Pearson 1934)."
)


def build_lottery_section(
    plan: Plan, chosen: Mapping[str, Configuration | None], outlying: Sequence[OutlyingRun]
) -> Section | None:
    """Build the table; None if no run looks collapsed, or the first sanity baseline of the plan has no score."""
    systems = list(dict.fromkeys(run.system for run in outlying if run.is_worse))
    bar = next((family.comparisons[0][1] for family in plan.families if family.name == "sanity"), None)
    level = _average_seeds(plan, chosen[bar], (None,)) if bar else None
    if bar and level is not None and not len(level):
        level = _average_seeds(plan, chosen[bar], plan.get_seeds("test"))
    if not systems or level is None or not len(level):
        return None
    from scipy import stats

    sign, rows = (-1 if plan.metric in LOWER_IS_BETTER else 1), list[list[str]]()
    for name in systems:
        means = _average_seeds(plan, chosen[name], plan.get_seeds("test"))
        quantiles = [sign * value for value in np.quantile(sign * means, (0, 0.1, 0.5))]
        worse = int((sign * means < sign * level.mean()).sum())
        low, high = stats.binomtest(worse, len(means)).proportion_ci(0.95, "exact")
        rows.append(
            [name, *(f"{value:.4f}" for value in quantiles), f"{worse} of {len(means)}",
             f"{worse / len(means):.2f} [{low:.2f}, {high:.2f}]"]
        )  # fmt: skip
    header = ["system", "worst seed", "worst tenth", "median", f"worse than {bar}", "fresh seed"]
    legend = _LEGEND.format(metric=plan.metric, bar=bar, level=level.mean())
    return Section("Seeds of systems with a run that looks collapsed", header, rows, legend)


def _average_seeds(plan: Plan, configuration: Configuration | None, seeds: Sequence[int | None]) -> Floats:
    """Return the mean test score of each seed that has one."""
    runs = [run for seed in seeds if configuration and (run := configuration.runs.get(seed))]
    return np.array([own.mean() for run in runs if (own := evaluate_run(plan, run)) is not None])
