"""Every configuration on the development set, for as long as no run has test scores: all that a search alone tells."""

from analysis.data.configurations import Configuration, mean, score_text
from analysis.data.plan import Plan
from trainables.metrics import MINIMISED

LEGEND = (
    "Nothing is tested yet: no run has {test} scores. Mean ± standard deviation over the seeds of the search, where "
    "none is missing; the best of many configurations owes part of its score to luck."
)


def nothing_tested(plan: Plan, found: list[Configuration]) -> bool:
    """Whether no run of the study has test scores."""
    return not any(configuration.tested(plan) for configuration in found)


def cells(plan: Plan, found: list[Configuration]) -> tuple[list[str], list[list[str]]]:
    """Header and rows as plain text, the best of each system first."""
    header = ["system", "settings", "seeds", f"{plan.search_split} {plan.metric}", "configuration"]
    scored = [(c, mean(c.values(plan, "search"))) for c in found]
    sign = 1 if plan.metric in MINIMISED else -1
    systems = list(dict.fromkeys(c.system for c in found))
    scored.sort(key=lambda pair: (systems.index(pair[0].system), pair[1] is None, sign * (pair[1] or (0.0,))[0]))
    return header, [
        [c.system, c.described or "-", _seeds(plan, c), score_text(score) if score else _state(c), c.id]
        for c, score in scored
    ]


def _seeds(plan: Plan, configuration: Configuration) -> str:
    """How many have scores, of how many there should be."""
    expected = configuration.expected(plan, "search")
    return f"{len(expected) - len(configuration.faults(plan, 'search'))} of {len(expected)}"


def _state(configuration: Configuration) -> str:
    return "dropped by the race" if configuration.dropped else "incomplete"
