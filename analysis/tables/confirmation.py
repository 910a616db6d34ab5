"""What remains of a search's gain when it is judged with fresh seeds.

The best of many configurations owes part of its score to the seeds that it was chosen by: the best of 50 equal ones
looks better than the others. So the winner and the untuned default of a system are both trained again with seeds that
no choice has seen. The gain over the default that the search's own seeds show, less the one that the fresh seeds show,
is luck.
"""

from dataclasses import dataclass
from typing import get_args

from analysis.data.configurations import Configuration, Score, mean, score_text
from analysis.data.plan import Phase, Plan
from analysis.data.results import Results
from analysis.stats.estimate import Test
from analysis.stats.paired_tests import paired, targets
from trainables.utils.arrays import Floats

HEADER = ["system", "configuration", "search", "confirmed", "test", "gain: search", "gain: fresh seeds", "luck"]
LEGEND = (
    "Search: mean ± standard deviation on {dev} over the seeds that the configuration was chosen by; confirmed: on "
    "{dev} over seeds that no choice has seen; test: on {test} with these fresh seeds. A gain is over the untuned "
    "default, with the same seeds on both sides, on {dev}; its {level:.3g} % interval is for new queries and new "
    "seeds. Luck is what the gain lost on fresh seeds."
)
"""What the table's columns are."""


@dataclass(frozen=True)
class Confirmed:
    """A searched system's winner, or its untuned default.

    Attributes:
        label: the configuration in words; None where the study has none.
        search, confirmed, test: scores; None where a seed is missing.
        gain: over the untuned default on the search's seeds; None for the default itself, and where a side is missing.
        fresh: the same on fresh seeds.
        interval: of `fresh`; None with one seed.
    """

    system: str
    tuned: bool
    label: str | None
    search: Score | None
    confirmed: Score | None
    test: Score | None
    gain: float | None = None
    fresh: float | None = None
    interval: Test | None = None

    @property
    def luck(self) -> float | None:
        """What the gain lost on fresh seeds."""
        return None if self.gain is None or self.fresh is None else self.gain - self.fresh


def confirm(results: Results, configurations: list[Configuration]) -> list[Confirmed]:
    """The searched systems in the plan's order, each its winner and its untuned default; none without confirmation."""
    found = {c.id: c for c in configurations}
    if results.search is None or not results.plan.confirm_seeds:
        return []
    rows = []
    for name in results.plan.all_systems:
        if (search := results.search.systems.get(name)) is not None:
            rows += _pair(results.plan, name, found.get(search.winner or ""), found.get(search.untuned or ""))
    return rows


def cells(rows: list[Confirmed]) -> list[list[str]]:
    """The rows as plain text, in the order of `HEADER`."""
    return [
        [row.system, row.label or "-", score_text(row.search), score_text(row.confirmed), score_text(row.test),
         _gain(row.gain), _gain(row.fresh) + _interval(row.interval), _gain(row.luck)]
        for row in rows
    ]  # fmt: skip


def legend(plan: Plan) -> str:
    """`LEGEND` with this study's words."""
    return plan.worded(LEGEND).format(dev=plan.search_split, test=plan.test_split, level=100 * (1 - plan.alpha))


def _pair(plan: Plan, system: str, winner: Configuration | None, untuned: Configuration | None) -> list[Confirmed]:
    scored = [{phase: c.values(plan, phase) if c else None for phase in get_args(Phase)} for c in (winner, untuned)]
    gain, fresh = (paired(scored[0][phase], scored[1][phase]) for phase in ("search", "confirmed"))
    interval = None if fresh is None else targets(fresh, 1 - plan.alpha)["both"]
    first, second = (_scores(values) for values in scored)
    tuned = Confirmed(
        system,
        True,
        None if winner is None else _label(winner) + (" = untuned" if winner is untuned else ""),
        *first,
        None if gain is None else float(gain.mean()),
        None if fresh is None else float(fresh.mean()),
        interval,
    )
    if winner is untuned:
        return [tuned]
    label = "untuned" + ("" if untuned is None else f": {_label(untuned)}")
    return [tuned, Confirmed(system, False, label, *second)]


def _scores(values: dict[Phase, Floats | None]) -> tuple[Score | None, Score | None, Score | None]:
    return mean(values["search"]), mean(values["confirmed"]), mean(values["test"])


def _label(configuration: Configuration) -> str:
    return configuration.described or configuration.system


def _gain(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _interval(test: Test | None) -> str:
    return "" if test is None else f" [{test.low:+.4f}, {test.high:+.4f}]"
