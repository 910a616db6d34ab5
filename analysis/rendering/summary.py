"""What the report answers first: what was compared, what won, how sure, what it cost."""

from analysis.data.cost import cost
from analysis.stats.comparison import Comparison
from analysis.tables.main import Analysis, headlines, p_value

_NAMED = 6
"""Most comparisons that an answer names one by one."""
ABOUT = {
    "both": "for new queries and new seeds",
    "queries": "for new queries; with one seed nothing can be said of other seeds",
    "seeds": "for new seeds; with one query nothing can be said of other queries",
}
"""What a comparison's headline is about, by its target."""


def answers(analysis: Analysis) -> list[tuple[str, list[str]]]:
    """Four questions and their answers, each a few plain lines."""
    return [
        ("What was compared?", _compared(analysis)),
        ("What won?", [analysis.conclusion]),
        ("How sure is that?", _sure(analysis)),
        ("What did it cost?", _cost(analysis)),
    ]


def _compared(analysis: Analysis) -> list[str]:
    plan, table = analysis.results.plan, analysis.table
    first = plan.headline
    against: dict[str, list[str]] = {}
    for system, baseline in first.comparisons:
        against.setdefault(baseline, []).append(system)
    pairs = "; ".join(f"{_listed(names)} with {baseline}" for baseline, names in against.items())
    searched = analysis.results.search.systems.values() if analysis.results.search else ()
    tried = sum(len(own.proposals) for own in searched)
    chosen = f" Settings chosen on {plan.search_split} among {tried} configurations." if tried else ""
    others = sum(len(own.comparisons) * len(plan.metrics_of(own)) for own in plan.families if own != first)
    more = f" {others} further comparison{'s' * (others != 1)} in other families." if others else ""
    sample = f"{table.queries:,} {plan.test_split} {plan.worded('queries')} and {_counted(table.seeds, 'seed')}"
    late = len((plan.model_extra or {}).get("exploratory", []))
    added = "was added when there were some, and is" if late == 1 else "were added when there were some, and are"
    but = f", but for {late} that {added} exploratory" if late else ""
    return [
        f"{pairs}: {plan.metric} on {plan.task}, {sample}.{chosen}{more}",
        f"Declared before any {plan.test_split} score{but}: plan {analysis.results.plan_hash}, version {plan.version}.",
    ]


def _sure(analysis: Analysis) -> list[str]:
    plan, baseline = analysis.results.plan, analysis.table.baselines[0]
    family = plan.headline
    own = [c for c in headlines(plan, analysis.comparisons) if c.baseline == baseline]
    known = [c for c in own if c.difference is not None and c.interval is not None and c.target]
    if not known:
        return [f"Nothing is known yet: no comparison with {baseline} is complete."]
    shown = sorted(known, key=_first)[:_NAMED]
    about = " and ".join(dict.fromkeys(plan.worded(ABOUT[c.target]) for c in known if c.target))
    left = f" ({len(known) - len(shown)} more are in the table)" if len(known) > len(shown) else ""
    return [
        f"Difference from {baseline}, {100 * (1 - plan.alpha):g} % interval and p, for all {known[0].comparisons} "
        f"comparisons of the family at once ({family.correction}), {about}:{left}",
        *(_differs(c, family.correction) for c in shown),
    ]


def _cost(analysis: Analysis) -> list[str]:
    spent = cost(analysis.results)
    all_instances = spent.trained + spent.shared
    share = f" ({100 * spent.shared / all_instances:.0f} %)" if all_instances else ""
    failed = f", {spent.failed} of them failed" if spent.failed else ""
    return [
        f"{spent.hours:.2f} trial hours ({spent.seconds:,.0f} s) in {_counted(spent.runs, 'run')}{failed}.",
        f"{spent.trained:,} instances were trained, {spent.shared:,}{share} were shared with other runs instead.",
    ]


def _differs(c: Comparison, correction: str) -> str:
    low, high = c.interval or (0.0, 0.0)
    return f"{c.system} {c.difference:+.4f} [{low:+.4f}, {high:+.4f}], p {p_value(c.adjusted[correction])}: {c.verdict}"


def _first(c: Comparison) -> tuple[bool, float]:
    """Decided ones before others, then by size."""
    return c.verdict == "undecided", -abs(c.difference or 0.0)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
