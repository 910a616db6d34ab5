"""Summary of the report's W&B run: the results of a study as flat keys and values.

`python -m study.dashboard` shows them by these names.
"""

import math

from analysis.data.measured_cost import compute_cost, compute_run_seconds
from analysis.stats.comparison import Comparison
from analysis.tables.main import ReportData
from records.plan import Plan

SummaryValue = float | int | str | bool
FAILED, INCOMPLETE = "failed_runs", "incomplete_configurations"
HOURS, GPU_HOURS, INSTANCES = "cost/hours", "cost/gpu_hours", "cost/instances"
HOURS_BUDGET, GPU_HOURS_BUDGET = "budget/hours", "budget/gpu_hours"


def make_comparison_key(system: str, baseline: str, quantity: str, metric: str = "", split: str | None = None) -> str:
    """Return the key of a number of a comparison.

    Args:
        system: system that is compared.
        baseline: system that it is compared with.
        quantity: difference, low, high, p, p_corrected or verdict.
        metric: metric, if it is not the plan's.
        split: split, if it is not the test split.
    """
    where = (f" on {metric}" if metric else "") + (f" ({split})" if split else "")
    return f"comparison/{system} vs {baseline}{where}/{quantity}"


def make_system_key(system: str, quantity: str) -> str:
    """Return the key of a number of a system: dev, test or failed_runs."""
    return f"system/{system}/{quantity}"


def build_wandb_summary(analysis: ReportData, gpus_per_trial: float = 1.0) -> dict[str, SummaryValue]:
    """Return comparisons, scores, failures, cost and budgets by key.

    Values that are unknown or not finite are absent. A comparison has `difference`, an interval from `low` to `high`
    that is simultaneous for its family, the uncorrected `p` of its headline test, `p_corrected` by the plan's
    correction, and `verdict`. A comparison that could not be made has none of them. The scores of a system are means
    over seeds and queries of its chosen configuration. `cost/hours` are trial hours, as if the trials ran one after
    the other.

    Args:
        analysis: data of the report.
        gpus_per_trial: share of a GPU that a trial uses, since run records do not contain it. Only runs on a GPU
            count.
    """
    results, plan = analysis.results, analysis.results.plan
    cost = compute_cost(results)
    on_gpu = [run for run in results.runs if run.get_settings("environment").get("device", "cpu") != "cpu"]
    gpu_seconds = sum(compute_run_seconds(run, plan.test_split) or 0.0 for run in on_gpu)
    summary: dict[str, SummaryValue | None] = {}
    for comparison in reversed(analysis.comparisons):  # if a pair is in several families, the first one counts
        summary |= _summarize_comparison(comparison, plan)
    for row in analysis.table.rows:
        summary[make_system_key(row.system, "dev")] = row.dev[0] if row.dev else None
        summary[make_system_key(row.system, "test")] = row.test[0] if row.test else None
        runs = [run for run in results.runs if run.config["variant"] == row.system and not run.is_difficulty_scorer]
        summary[make_system_key(row.system, FAILED)] = sum(not run.is_finished for run in runs)
    summary[FAILED] = cost.failed
    summary[INCOMPLETE] = sum(c.lacks_runs(plan) for c in analysis.configurations)
    summary |= {
        HOURS: cost.hours,
        GPU_HOURS: gpus_per_trial * gpu_seconds / 3600,
        INSTANCES: cost.trained,
    }
    summary |= {HOURS_BUDGET: plan.budgets.hours, GPU_HOURS_BUDGET: plan.budgets.gpu_hours}
    return {name: value for name, value in summary.items() if value is not None and _is_finite(value)}


def _summarize_comparison(c: Comparison, plan: Plan) -> dict[str, SummaryValue | None]:
    if c.difference is None:
        return {}
    correction = next(family.correction for family in plan.families if family.name == c.family)
    low, high = c.interval or (None, None)
    values: dict[str, SummaryValue | None] = {
        "difference": c.difference,
        "low": low,
        "high": high,
        "p": c.p,
        "p_corrected": c.adjusted[correction],
        "verdict": c.verdict,
    }
    metric = "" if c.metric == plan.metric else c.metric
    pair = c.system, c.baseline
    return {make_comparison_key(*pair, quantity, metric, c.split): value for quantity, value in values.items()}


def _is_finite(value: SummaryValue) -> bool:
    return isinstance(value, str) or math.isfinite(value)
