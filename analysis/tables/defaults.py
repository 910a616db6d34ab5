"""The systems with their default settings on the development set: Table 1 of Penha and Hauff (2021)."""

from collections.abc import Sequence
from typing import NamedTuple

from analysis.data.configurations import Configuration, Score, format_score, mean_and_std
from analysis.data.plan import Phase, Plan
from analysis.data.results import Results
from analysis.stats.comparison import ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.paired_tests import differences_or_none, vary_over_seeds
from analysis.tables.marks import build_marks, format_marks_legend

_LEGEND = (
    "{metric} on {dev}, mean ± standard deviation over {seeds} {kind}seed{s}. Every searched system has its default "
    "settings, which were not searched. Sig.: {marks}. These are the declared comparisons, but on {dev}: exploratory."
)


class DefaultRow(NamedTuple):
    """A system of the plan; its score is None if a run is missing."""

    system: str
    settings: str
    score: Score | None
    marks: str


class DefaultsTable(NamedTuple):
    """The table of systems with their default settings.

    Attributes:
        rows: one row a system.
        phase: search or confirmed; it decides the seeds of the scores.
    """

    rows: list[DefaultRow]
    phase: Phase

    def to_cells(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows as plain text."""
        lines = [[row.system, row.settings or "-", format_score(row.score), row.marks] for row in self.rows]
        return ["system", "settings", "score", "sig."], lines

    def format_legend(self, plan: Plan) -> str:
        """Return the legend of the table."""
        seeds = len(plan.get_seeds(self.phase))
        return _LEGEND.format(
            metric=plan.metric,
            dev=plan.search_split,
            seeds=seeds,
            s="s" * (seeds != 1),
            kind="fresh " if self.phase == "confirmed" else "",
            marks=format_marks_legend(plan.mark_baselines),
        )


def build_defaults_table(results: Results, configurations: Sequence[Configuration]) -> DefaultsTable | None:
    """Build the table in the plan's order, over the seeds of the search or else the fresh ones.

    None if no phase has all runs of the searched systems' defaults.
    """
    plan, known = results.plan, {c.id: c for c in configurations}
    searches = results.search.systems if results.search else {}
    defaults = {name: known.get(own.untuned or "") for name, own in searches.items()}
    phases: tuple[Phase, ...] = ("search", "confirmed") if plan.confirm_seeds else ("search",)
    complete = [p for p in phases if all(c is not None and not c.find_faults(plan, p) for c in defaults.values())]
    if not defaults or not complete:
        return None
    phase = complete[0]
    shown = {
        name: defaults[name] if name in defaults else _find_only(configurations, name) for name in plan.all_systems
    }
    values = {name: c.evaluate_queries(plan, phase) if c else None for name, c in shown.items()}
    first = plan.headline
    pairs = [
        (system, baseline, differences_or_none(values[system], values[baseline]))
        for system, baseline in first.comparisons
    ]
    poolable = [
        vary_over_seeds(values[system], values[baseline]) and not plan.is_exploratory((system, baseline))
        for system, baseline in first.comparisons
    ]
    family = ComparisonFamily(
        first.name, plan.task, plan.metric, pairs, is_correlation=plan.is_correlation, poolable=poolable
    )
    settings = ComparisonSettings(plan.alpha, first.correction, plan.margin, seeds=plan.seed_variance)
    compared = compare_family(family, settings)
    marked = build_marks(plan, compared)
    rows = [
        DefaultRow(name, c.description, mean_and_std(values[name]), marked.get(name, ""))
        for name, c in shown.items()
        if c
    ]
    return DefaultsTable(rows, phase)


def _find_only(configurations: Sequence[Configuration], system: str) -> Configuration | None:
    """Return the configuration of a system that was not searched; None if it has several."""
    matching = [c for c in configurations if c.system == system]
    return matching[0] if len(matching) == 1 else None
