"""Systems with settings that nobody had to search for, on the development set: Table 1 of Penha and Hauff (2021)."""

from collections.abc import Sequence
from typing import NamedTuple

from analysis.data.configurations import Configuration, Score, mean, score_text
from analysis.data.plan import Phase, Plan
from analysis.data.results import Results
from analysis.stats.comparison import Family, Settings, judge
from analysis.stats.paired_tests import paired
from analysis.tables.marks import legend as marks_legend
from analysis.tables.marks import marks

_LEGEND = (
    "{metric} on {dev}, mean ± standard deviation over {seeds} {kind}seed{s}, every searched system with its untuned "
    "default. Marks: {marks}; the declared comparisons, but judged on {dev}: exploratory."
)


class Row(NamedTuple):
    """A system of the plan; its score is None where a run is missing."""

    system: str
    settings: str
    score: Score | None
    marks: str


class Untuned(NamedTuple):
    """The table; `phase` tells which seeds its scores are over."""

    rows: list[Row]
    phase: Phase
    baselines: list[str]

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows as plain text."""
        lines = [[row.system, row.settings or "-", score_text(row.score), row.marks] for row in self.rows]
        return ["system", "settings", "score", "marks"], lines

    def legend(self, plan: Plan) -> str:
        """What the columns are."""
        seeds = len(plan.seeds_of(self.phase))
        return _LEGEND.format(
            metric=plan.metric,
            dev=plan.search_split,
            seeds=seeds,
            s="s" * (seeds != 1),
            kind="fresh " if self.phase == "confirmed" else "",
            marks=marks_legend(self.baselines),
        )


def untuned(results: Results, found: Sequence[Configuration], baselines: list[str]) -> Untuned | None:
    """The systems in the plan's order, over the seeds of the search or else the fresh ones.

    None where no phase has all the runs of the searched systems' untuned defaults.
    """
    plan, known = results.plan, {c.id: c for c in found}
    searches = results.search.systems if results.search else {}
    defaults = {name: known.get(own.untuned or "") for name, own in searches.items()}
    phases: tuple[Phase, ...] = ("search", "confirmed") if plan.confirm_seeds else ("search",)
    complete = [p for p in phases if all(c is not None and not c.faults(plan, p) for c in defaults.values())]
    if not defaults or not complete:
        return None
    phase = complete[0]
    shown = {name: defaults[name] if name in defaults else _only(found, name) for name in plan.all_systems}
    values = {name: c.values(plan, phase) if c else None for name, c in shown.items()}
    first = plan.headline
    pairs = [(one, other, paired(values[one], values[other])) for one, other in first.comparisons]
    family = Family(first.name, plan.task, plan.metric, pairs, correlation=plan.correlation)
    marked = marks(judge(family, Settings(plan.alpha, first.correction, plan.margin)), baselines)
    rows = [Row(name, c.described, mean(values[name]), marked.get(name, "")) for name, c in shown.items() if c]
    return Untuned(rows, phase, baselines)


def _only(found: Sequence[Configuration], system: str) -> Configuration | None:
    """The configuration of a system that was not searched; None where it has several."""
    own = [c for c in found if c.system == system]
    return own[0] if len(own) == 1 else None
