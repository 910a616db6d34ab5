"""Every configuration on the development set, shown while no run has test scores."""

from analysis.data.configurations import Configuration, format_score, mean_and_std
from analysis.tables.section import Section
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER

_LEGEND = (
    "No run has {test} scores yet. Mean ± standard deviation over the seeds of the search, if none is missing. The "
    "best of many configurations owes part of its score to chance."
)


def is_untested(plan: Plan, configurations: list[Configuration]) -> bool:
    """Return whether no run of the study has test scores."""
    return not any(configuration.is_tested(plan) for configuration in configurations)


def build_dev_section(plan: Plan, configurations: list[Configuration]) -> Section | None:
    """Build the table, the best configuration of each system first; None if something is tested."""
    if not is_untested(plan, configurations):
        return None
    scored = [(c, mean_and_std(c.evaluate_queries(plan, "search"))) for c in configurations]
    sign = 1 if plan.metric in LOWER_IS_BETTER else -1
    systems = list(dict.fromkeys(c.system for c in configurations))
    scored.sort(key=lambda pair: (systems.index(pair[0].system), pair[1] is None, sign * (pair[1] or (0.0,))[0]))
    rows = [
        [c.system, c.description or "-", _format_seeds(plan, c), format_score(score) if score else
         "pruned by racing" if c.pruned else "incomplete", c.id]
        for c, score in scored
    ]  # fmt: skip
    header = ["system", "settings", "seeds", f"{plan.search_split} {plan.metric}", "configuration"]
    legend = _LEGEND.format(test=plan.test_split)
    return Section(f"Configurations, on {plan.search_split}", header, rows, legend)


def _format_seeds(plan: Plan, configuration: Configuration) -> str:
    """Format how many seeds have scores, and how many there should be."""
    expected = configuration.expected_seeds(plan, "search")
    return f"{len(expected) - len(configuration.find_faults(plan, 'search'))} of {len(expected)}"
