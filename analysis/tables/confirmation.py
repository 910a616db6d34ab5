"""Confirmation: the gain of a search, judged again with fresh seeds.

The best of many configurations owes part of its score to the seeds that it was chosen by: the best of 50 equal ones
looks better than the others. So the winner and the default of a system are both trained again with seeds that no
choice has seen. The gain over the default on the search's own seeds, minus the gain on the fresh seeds, is the
optimism of the search.
"""

from dataclasses import dataclass
from typing import get_args

from analysis.data.configurations import Configuration, Score, format_score, mean_and_std
from analysis.data.study_results import Results
from analysis.stats.estimate import TestResult
from analysis.stats.paired_tests import differences_or_none, estimate_all
from analysis.tables.section import Section
from records.plan import Phase, Plan
from trainables.utils.arrays import Floats

_HEADER = ["system", "configuration", "search", "confirmed", "test", "gain (search)", "gain (fresh seeds)", "optimism"]
_LEGEND = (
    "Search: mean ± standard deviation on {dev} over the seeds that the configuration was chosen by; confirmed: on "
    "{dev} over seeds that no choice has seen; test: on {test} with these fresh seeds. A gain is over the system's "
    "default, with the same seeds on both sides, on {dev}; its {level:.3g} % interval is for new queries and new "
    "seeds. Optimism: the gain with the search's seeds minus the gain with fresh seeds."
)


@dataclass(frozen=True)
class ConfirmedConfiguration:
    """A searched system's winner, or its default.

    Attributes:
        system: name of the system.
        tuned: True for the winner, False for the default.
        label: the configuration in words. None if the study has none.
        search: score on the search split over the search's seeds. None if a seed is missing.
        confirmed: score on the search split over fresh seeds. None if a seed is missing.
        test: score on the test split over fresh seeds. None if a seed is missing.
        gain: gain over the default on the search's seeds. None for the default itself, and if a side is missing.
        fresh_gain: gain over the default on fresh seeds.
        interval: confidence interval of `fresh_gain`. None with one seed.
    """

    system: str
    tuned: bool
    label: str | None
    search: Score | None
    confirmed: Score | None
    test: Score | None
    gain: float | None = None
    fresh_gain: float | None = None
    interval: TestResult | None = None

    @property
    def optimism(self) -> float | None:
        """The gain with the search's seeds minus the gain with fresh seeds."""
        return None if self.gain is None or self.fresh_gain is None else self.gain - self.fresh_gain


def build_confirmation(results: Results, configurations: list[Configuration]) -> list[ConfirmedConfiguration]:
    """Return winner and default of the searched systems in the plan's order.

    Empty without confirmation, and if seeds of the search serve in it: then nothing was chosen.
    """
    by_id, plan = {c.id: c for c in configurations}, results.plan
    if results.search is None or not plan.confirm_seeds or not {*plan.confirm_seeds}.isdisjoint(plan.seeds):
        return []
    rows = []
    for name in results.plan.all_systems:
        if (search := results.search.systems.get(name)) is not None:
            rows += _build_pair(results.plan, name, by_id.get(search.winner or ""), by_id.get(search.untuned or ""))
    return rows


def build_confirmation_section(plan: Plan, rows: list[ConfirmedConfiguration]) -> Section | None:
    """Build the table; None without confirmation."""
    if not rows:
        return None
    cells = [
        [row.system, row.label or "-", format_score(row.search), format_score(row.confirmed), format_score(row.test),
         _format_gain(row.gain), _format_gain(row.fresh_gain) + _format_interval(row.interval),
         _format_gain(row.optimism)]
        for row in rows
    ]  # fmt: skip
    legend = plan.adapt_to_unit(_LEGEND).format(
        dev=plan.search_split, test=plan.test_split, level=100 * (1 - plan.alpha)
    )
    return Section("Search, confirmed and test", _HEADER, cells, legend)


def _build_pair(
    plan: Plan, system: str, winner: Configuration | None, default: Configuration | None
) -> list[ConfirmedConfiguration]:
    scored = [
        {phase: c.evaluate_queries(plan, phase) if c else None for phase in get_args(Phase)} for c in (winner, default)
    ]
    gain, fresh = (differences_or_none(scored[0][phase], scored[1][phase]) for phase in ("search", "confirmed"))
    estimate = None if fresh is None else estimate_all(fresh)["both"]
    interval = estimate.test(1 - plan.alpha) if estimate else None
    first, second = (_summarize_phases(values) for values in scored)
    tuned = ConfirmedConfiguration(
        system,
        True,
        None if winner is None else _format_label(winner) + (" = default" if winner is default else ""),
        *first,
        None if gain is None else float(gain.mean()),
        None if fresh is None else float(fresh.mean()),
        interval,
    )
    if winner is default:
        return [tuned]
    label = "default" + ("" if default is None else f": {_format_label(default)}")
    return [tuned, ConfirmedConfiguration(system, False, label, *second)]


def _summarize_phases(values: dict[Phase, Floats | None]) -> tuple[Score | None, Score | None, Score | None]:
    return mean_and_std(values["search"]), mean_and_std(values["confirmed"]), mean_and_std(values["test"])


def _format_label(configuration: Configuration) -> str:
    return configuration.description or configuration.system


def _format_gain(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _format_interval(test: TestResult | None) -> str:
    return "" if test is None else f" [{test.low:+.4f}, {test.high:+.4f}]"
