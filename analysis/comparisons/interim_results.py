"""Interim tests of a sequential study: at which one it stops, and what each one decided."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from analysis.comparisons.declared import Evaluate, build_family, make_evaluate, make_settings
from analysis.data.configurations import Configuration, choose_configurations, collect_configurations
from analysis.data.study_results import Results
from analysis.stats.comparison import Comparison
from analysis.stats.interim_tests import combine_interim_tests, compare_at_interim_test
from records.plan import Plan


class InterimTest(NamedTuple):
    """State of the headline's comparisons after a look at the test scores.

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


class InterimTests(NamedTuple):
    """The interim tests of a study so far.

    Attributes:
        taken: the complete ones in their order.
        is_over: True if none follows: all is decided, or it was the last one.
    """

    taken: list[InterimTest]
    is_over: bool


def make_interim_tests(plan: Plan, make_evaluate: Callable[[Plan], Evaluate]) -> InterimTests:
    """Test the headline's comparisons after each group of seeds, up to the interim test that decides the last open one.

    It depends on nothing but the plan and the scores, so a study and its report make the same tests. A test
    with incomplete scores is not made, nor any after it.

    Args:
        plan: plan of a sequential study.
        make_evaluate: returns, for the plan with the number of looks taken, the function that evaluates a system.
    """
    settings = make_settings(plan, plan.headline)
    taken, by_look = list[InterimTest](), list[list[Comparison]]()
    for index, seeds in enumerate(plan.looks):
        family = build_family(plan, plan.headline, make_evaluate(plan.stop_after(index + 1)))
        by_look.append(compare_at_interim_test(family, index, plan.looks, settings))
        look = InterimTest(seeds, combine_interim_tests(by_look, plan.looks, settings))
        if not look.is_complete:
            return InterimTests(taken, is_over=False)
        taken.append(look)
        if look.is_decided:
            return InterimTests(taken, is_over=True)
    return InterimTests(taken, is_over=True)


class TestedStudy(NamedTuple):
    """A study with the configurations that its test is about.

    Attributes:
        results: the study, with a plan that ends with its last interim test.
        configurations: all configurations.
        chosen: chosen configuration of each system.
        looks: its interim tests; None if it has no groups of seeds.
    """

    results: Results
    configurations: list[Configuration]
    chosen: dict[str, Configuration | None]
    looks: InterimTests | None


def choose_tested(results: Results) -> TestedStudy:
    """Choose the configurations of a study, over the seeds of the interim tests that were taken.

    Raises:
        UserError: if the runs cannot be compared; see `collect_configurations` and `choose_configurations`.
    """
    configurations, looks = collect_configurations(results), None
    chosen = choose_configurations(results, configurations)
    if results.plan.group_size is not None:
        looks = make_interim_tests(results.plan, lambda plan: make_evaluate(plan, chosen))
        results = replace(results, plan=results.plan.stop_after(max(1, len(looks.taken))))
    return TestedStudy(results, configurations, choose_configurations(results, configurations), looks)
