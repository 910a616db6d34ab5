"""The conclusion of the report: what won, in one or two sentences."""

from collections.abc import Sequence
from statistics import median

from analysis.comparisons.declared import select_headline_comparisons
from analysis.rendering.cells import format_p_value
from analysis.stats.comparison import Comparison
from analysis.tables.dev_only import is_untested
from analysis.tables.main import ReportData
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER, get_measure

_TARGETS = {"both": "on new queries and new seeds", "queries": "on new queries", "seeds": "with new seeds"}


def write_conclusion(analysis: ReportData) -> str:
    """State the result of the first comparison of each system in one or two plain sentences."""
    plan = analysis.results.plan
    if is_untested(plan, analysis.configurations):
        baseline = plan.mark_groups[0].only_baseline
        return f"No conclusion{f' about {baseline}' if baseline else ''} yet: no run has {plan.test_split} scores."
    return _describe_headline(analysis) + _describe_weak_baselines(plan, analysis.comparisons)


def _describe_headline(analysis: ReportData) -> str:
    plan, group, table = analysis.results.plan, analysis.results.plan.mark_groups[0], analysis.table
    baseline = group.only_baseline or "its baseline"
    on = {target: plan.adapt_to_unit(words) for target, words in _TARGETS.items()}
    headlines = [
        c for c in select_headline_comparisons(plan, analysis.comparisons) if (c.system, c.baseline) in group.pairs
    ]
    known = [c for c in headlines if c.difference is not None]
    incomplete = [c.system for c in headlines if c.difference is None]
    missing = f" Not compared, because incomplete: {', '.join(incomplete)}." if incomplete else ""
    equal = [c.system for c in known if c.verdict == "all values are equal"]
    missing = (f" All values are equal to those of {baseline}: {', '.join(equal)}." if equal else "") + missing
    varying = [c for c in known if c.system not in equal]
    if not known:
        about = f" about {group.only_baseline}: no comparison with it" if group.only_baseline else ": no comparison"
        return f"No conclusion{about} is complete.{missing}"
    decided = [
        f"{c.system} is significantly {c.verdict} than {c.baseline} {on[c.target or 'both']} ({c.difference:+.4f}, "
        f"corrected p {format_p_value(c.adjusted[plan.headline.correction])})"
        for c in known
        if c.verdict in ("better", "worse")
    ]
    decided += [
        f"{c.system} is equivalent to {c.baseline} {on[c.target or 'both']} ({c.difference:+.4f}, "
        f"margin {plan.margin:g})"
        for c in known
        if c.verdict == "equivalent"
    ]
    counts = f"{table.queries:,} {plan.adapt_to_unit('queries')}", f"{table.seeds} seed{'s' * (table.seeds != 1)}"
    effects = [c.detectable for c in known if c.detectable is not None]
    if not decided:
        power = _describe_power(median(effects), plan.metric, counts) if effects else ""
        limit = f"; {power}" if power else f" with {' and '.join(counts)}"
        bounds = _describe_bounds(varying, plan.metric, on[known[0].target or "both"])
        return f"No variant differs significantly from {baseline}{bounds and f': {bounds}'}{limit}.{missing}"
    rest = [c for c in known if c.verdict == "undecided"]
    bounds = _describe_bounds(rest, plan.metric, on[rest[0].target or "both"]) if rest else ""
    undecided = f" Undecided: {', '.join(c.system for c in rest)}{bounds and f' ({bounds})'}." if rest else ""
    return f"{'; '.join(decided)}; with {' and '.join(counts)}.{undecided}{missing}"


def _describe_weak_baselines(plan: Plan, compared: list[Comparison]) -> str:
    """Say that a baseline of the headline's family has a worse mean than another system, such as BM25."""
    corrections = {family.name: family.correction for family in plan.test_families}
    baselines = {baseline for _, baseline in plan.headline.comparisons}
    sign = -1 if plan.metric in LOWER_IS_BETTER else 1
    return "".join(
        f" {c.system} itself {_describe_loss(c)} {plan.adapt_to_unit(_TARGETS[c.target or 'both'])} "
        f"({c.difference:+.4f}, corrected p {format_p_value(c.adjusted[corrections[c.family]])})."
        for c in compared
        if c.system in baselines
        and c.family != plan.headline.name
        and c.family in corrections
        and c.metric == plan.metric
        and sign * (c.difference or 0.0) < 0
    )


def _describe_loss(c: Comparison) -> str:
    if c.verdict == "worse":
        return f"is significantly worse than {c.baseline}"
    return f"has a worse mean than {c.baseline}, though not significantly"


def _describe_bounds(comparisons: Sequence[Comparison], metric: str, population: str) -> str:
    """Say how large a gain or loss can still be by the intervals, which hold for all comparisons of the family at once.

    Empty if an interval is not known, if all are 0 wide, or if one is as wide as the largest possible difference.
    """
    intervals = [c.interval for c in comparisons if c.interval is not None]
    if not intervals or len(intervals) < len(comparisons):
        return ""
    loss, gain = -min(low for low, _ in intervals), max(high for _, high in intervals)
    if loss <= 0 and gain <= 0:
        return ""
    if metric in LOWER_IS_BETTER:
        loss, gain = gain, loss
    elif max(loss, gain) >= get_measure(metric).max_value:
        return ""
    return f"any gain {population} is at most {gain:.4f}, any loss at most {loss:.4f}"


def _describe_power(effect: float, metric: str, counts: tuple[str, str]) -> str:
    """Describe the minimum detectable effect of the study, as an estimate from its queries and seeds.

    A metric for which lower is better has no largest possible gain.
    """
    queries, seeds = counts
    sample = f"{queries}, {seeds}" if seeds == "1 seed" else f"{queries}, estimated from {seeds}"
    if effect >= get_measure(metric).max_value and metric not in LOWER_IS_BETTER:
        return f"the study has less than 80 % power even for the largest possible gain ({sample})"
    shown = f"{effect:.4f}" if effect >= 0.0001 else "0.0001 or less"
    return f"minimum detectable effect: about {shown} (80 % power, {sample})"
