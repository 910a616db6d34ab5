"""Finds the compared systems that trained alike, to the bit, until one switched its smoothing off."""

from analysis.data.configurations import Configuration
from records.plan import Plan

_FORKED = ("constant", "two_stage")
"""Schedules with the same strength up to a switch point. Those of the others change from the first batch on."""


def have_shared_beginning(plan: Plan, one: Configuration, other: Configuration) -> bool:
    """Return whether two configurations trained alike until a switch point: they differ in that schedule alone.

    Example:
        >>> from analysis.data.recorded_run import Run
        >>> settings = {"study": "demo", "task": "toy", "alpha": 0.05, "seeds": (1,), "metric": "R10@1"}
        >>> families = ({"name": "switch", "comparisons": [("T-LS", "LS")]},)
        >>> plan = Plan(**settings, systems=("LS", "T-LS"), families=families, shared_beginnings=[("LS", "T-LS")])
        >>> smoothed, switched = {"epsilon": 0.2}, {"epsilon": 0.2, "schedule": "two_stage", "switch": 0.5}
        >>> one, other = (
        ...     Configuration("id", name, 0.2, None, {1: Run("id", config, {})})
        ...     for name, config in (("LS", smoothed), ("T-LS", switched))
        ... )
        >>> have_shared_beginning(plan, one, other)
        True
    """
    if not _may_share(plan, (one.system, other.system)):
        return False
    first, second = (next(iter(c.runs.values())).config for c in (one, other))
    names = (name for name in plan.hyperparameters if name not in ("schedule", "switch"))
    is_forked = all(config.get("schedule", "constant") in _FORKED for config in (first, second))
    return is_forked and all(first.get(name) == second.get(name) for name in names)


def describe_shared_beginnings(plan: Plan, chosen: dict[str, Configuration | None]) -> list[str]:
    """Say which compared systems trained alike at first, and which could have; an empty list if none could."""
    alike, apart = list[str](), list[str]()
    for system, baseline in dict.fromkeys(pair for family in plan.test_families for pair in family.comparisons):
        one, other = chosen.get(system), chosen.get(baseline)
        if one and other and _may_share(plan, (system, baseline)):
            (alike if have_shared_beginning(plan, one, other) else apart).append(f"{system} with {baseline}")
    return [
        *([f"Trained alike up to the switch point: {', '.join(alike)}."] if alike else []),
        *([f"Trained apart from the start, because other settings were chosen: {', '.join(apart)}."] if apart else []),
    ]


def _may_share(plan: Plan, pair: tuple[str, str]) -> bool:
    return pair in plan.shared_beginnings or pair[::-1] in plan.shared_beginnings
