"""The looks of a sequential study at its test scores: at which one it stops, and what each one decided."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from analysis.comparisons.declared import Evaluate, build_family, make_evaluate, make_settings
from analysis.data.configurations import Configuration
from analysis.data.results import Results
from analysis.stats.comparison import Comparison
from analysis.stats.looks import combine_looks, compare_at_look
from records.plan import Plan


class Look(NamedTuple):
    """State of the headline's comparisons after a look.

    Attributes:
        seeds: number of fresh seeds so far.
        comparisons: the comparisons over all looks so far.
    """

    seeds: int
    comparisons: list[Comparison]

    @property
    def is_complete(self) -> bool:
        """True if no comparison lacks scores."""
        return all(c.verdict != "not compared" for c in self.comparisons)

    @property
    def is_decided(self) -> bool:
        """True if every comparison is better, worse or equivalent."""
        return all(c.is_decided for c in self.comparisons)


class Looks(NamedTuple):
    """The looks that a study took so far.

    Attributes:
        taken: the complete looks in their order.
        is_over: True if no look follows: all is decided, or it was the last one.
    """

    taken: list[Look]
    is_over: bool


def take_looks(plan: Plan, make_evaluate: Callable[[Plan], Evaluate]) -> Looks:
    """Look at the headline's comparisons after each group of seeds, up to the look that decides the last open one.

    It depends on nothing but the plan and the scores, so a study and its report take the same looks. A look whose
    scores are incomplete is not taken, and none after it.

    Args:
        plan: plan of a sequential study.
        make_evaluate: returns, for the plan with the number of looks taken, the function that evaluates a system.
    """
    settings = make_settings(plan, plan.headline)
    taken, by_look = list[Look](), list[list[Comparison]]()
    for index, seeds in enumerate(plan.looks):
        family = build_family(plan, plan.headline, make_evaluate(plan.stop_after(index + 1)))
        by_look.append(compare_at_look(family, index, plan.looks, settings))
        look = Look(seeds, combine_looks(by_look, plan.looks, settings))
        if not look.is_complete:
            return Looks(taken, is_over=False)
        taken.append(look)
        if look.is_decided:
            return Looks(taken, is_over=True)
    return Looks(taken, is_over=True)


def stop_at_look(results: Results, chosen: dict[str, Configuration | None]) -> tuple[Results, Looks | None]:
    """Return a study whose plan ends with its last look, and its looks; one without groups unchanged, and None."""
    if results.plan.group_size is None:
        return results, None
    looks = take_looks(results.plan, lambda plan: make_evaluate(plan, chosen))
    return replace(results, plan=results.plan.stop_after(max(1, len(looks.taken)))), looks
