"""Summary of the report: what was compared, what won, how sure that is, and what it cost."""

from analysis.checks.collapsed_seeds import describe_outlying_run
from analysis.comparisons.declared import select_headline_comparisons
from analysis.data.measured_cost import compute_cost
from analysis.rendering.cells import format_p_value
from analysis.rendering.conclusion import write_conclusion
from analysis.stats.comparison import Comparison
from analysis.tables.main import ReportData

_MAX_NAMED = 6
"""Most comparisons that an answer lists."""
_TARGETS = {
    "both": "for new queries and new seeds",
    "queries": "for new queries; one seed says nothing about other seeds",
    "seeds": "for new seeds; one query says nothing about other queries",
}
"""Population that a comparison's headline generalises to, by target."""


def answer_questions(analysis: ReportData) -> list[tuple[str, list[str]]]:
    """Answer four questions about the study, each in a few plain lines."""
    return [
        ("What was compared?", _describe_comparisons(analysis)),
        ("What won?", [write_conclusion(analysis), *map(describe_outlying_run, analysis.outlying_seeds)]),
        ("How sure is that?", _describe_certainty(analysis)),
        ("What did it cost?", _describe_cost(analysis)),
    ]


def _describe_comparisons(analysis: ReportData) -> list[str]:
    plan, table = analysis.results.plan, analysis.table
    first = plan.headline
    searched = analysis.results.search.systems.values() if analysis.results.search else ()
    tried = sum(len(own.proposals) for own in searched)
    chosen = f" Settings chosen on {plan.search_split} among {tried} configurations." if tried else ""
    others = sum(len(own.comparisons) * len(plan.get_family_metrics(own)) for own in plan.families if own != first)
    named = f" Names of systems contain the value of {plan.compared.hyperparameter}." if plan.compared else ""
    more = f" {others} further comparison{'s' * (others != 1)} in other families." if others else ""
    sample = (
        f"{table.queries:,} {plan.test_split} {plan.adapt_to_unit('queries')} and {_format_count(table.seeds, 'seed')}"
    )
    late = len((plan.model_extra or {}).get("exploratory", []))
    added = "was added later and is" if late == 1 else "were added later and are"
    exception = f", except for {late} that {added} exploratory" if late else ""
    declared = f"plan {analysis.results.plan_hash}, version {plan.version}"
    return [
        f"{first.format_pairs()}: {plan.metric} on {plan.task}, {sample}.{named}{chosen}{more}",
        f"Declared before any {plan.test_split} score{exception}: {declared}.",
    ]


def _describe_certainty(analysis: ReportData) -> list[str]:
    plan, group = analysis.results.plan, analysis.results.plan.mark_groups[0]
    family, baseline = plan.headline, group.only_baseline
    headlines = select_headline_comparisons(plan, analysis.comparisons)
    headlines = [c for c in headlines if (c.system, c.baseline) in group.pairs]
    known = [c for c in headlines if c.difference is not None and c.interval is not None and c.target]
    if not known:
        return [f"Not known yet: no comparison{f' with {baseline}' if baseline else ''} is complete."]
    shown = sorted(known, key=_sort_key)[:_MAX_NAMED]
    about = " and ".join(dict.fromkeys(plan.adapt_to_unit(_TARGETS[c.target]) for c in known if c.target))
    left = f" ({len(known) - len(shown)} more are in the table)" if len(known) > len(shown) else ""
    start = f"Difference from {baseline or 'the baseline'}"
    return [
        f"{start}, {100 * (1 - plan.alpha):g} % interval and p, for all {known[0].comparisons} "
        f"comparisons of the family at once ({family.correction}), {about}:{left}",
        *(_describe_difference(c, family.correction, named=baseline is None) for c in shown),
    ]


def _describe_cost(analysis: ReportData) -> list[str]:
    cost = compute_cost(analysis.results)
    all_instances = cost.trained + cost.shared
    share = f" ({100 * cost.shared / all_instances:.0f} %)" if all_instances else ""
    failed = f", {cost.failed} of them failed" if cost.failed else ""
    return [
        f"{cost.hours:.2f} trial hours ({cost.seconds:,.0f} s) in {_format_count(cost.runs, 'run')}{failed}.",
        f"{cost.trained:,} instances were trained, {cost.shared:,}{share} were shared with other runs instead.",
    ]


def _describe_difference(c: Comparison, correction: str, named: bool) -> str:
    (low, high), p_value = c.interval or (0.0, 0.0), format_p_value(c.adjusted[correction])
    pair = f"{c.system} from {c.baseline}" if named else c.system
    return f"{pair} {c.difference:+.4f} [{low:+.4f}, {high:+.4f}], p {p_value}: {c.verdict}"


def _sort_key(c: Comparison) -> tuple[bool, float]:
    """Return a key that sorts decided comparisons first, then by size."""
    return not c.is_decided, -abs(c.difference or 0.0)


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
