"""Reads from a finished study, or from the archive, what the next one is planned with: variances, metrics, seconds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.archive import load_scores
from analysis.comparisons.interim_results import choose_tested
from analysis.data.configurations import Configuration, mean_and_std
from analysis.data.measured_cost import RunSeconds, average_run_seconds
from analysis.data.score_table import ScoreTable, build_score_table
from analysis.data.study_results import Results
from analysis.stats.variance_components import VarianceComponents, estimate_variance_components
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER, get_measure
from trainables.utils.errors import UserError

_RANKING_METRICS = ("MRR", "nDCG@10", "position")
"""Metrics of any number of candidates, in addition to those that the plan names."""

TASKS = {
    "conversations": "smoothing-ubuntu-bm25",
    "docstrings": "smoothing-docstrings-bm25",
    "question-pairs": "smoothing-qqp-bm25",
}
"""Study of the archive for each task: those with BM25's negatives, in which no run collapsed."""


class PilotMetric(NamedTuple):
    """One metric of a pilot.

    Attributes:
        gain: size of the difference that makes metrics comparable, see `StudyPilot`.
        components: variance components of its test scores.
    """

    name: str
    gain: float
    components: VarianceComponents


class StudyPilot(NamedTuple):
    """Numbers to plan a study with. Only the variances are always known.

    Attributes:
        notes: what the scores are, and what is left out of them, in words.
        metric: metric of the scores; empty if it is not known.
        systems: number of systems that are trained.
        comparisons: number of comparisons that are corrected together.
        alpha: significance level of all of them.
        metrics: the metrics of a finished study, its plan's first. A difference by one metric is compared with one by
            another as a share of the gain of `gain_of` by each. Empty if there is no such gain.
        gain_of: the comparison with that gain: a system, and the reference that it is better than by most.
    """

    components: VarianceComponents
    notes: list[str]
    metric: str = ""
    queries: int | None = None
    systems: int | None = None
    comparisons: int = 1
    alpha: float = 0.05
    seconds: RunSeconds | None = None
    metrics: Sequence[PilotMetric] = ()
    gain_of: tuple[str, str] = ("", "")


def read_study_pilot(results: Results, where: str) -> StudyPilot:
    """Return what a finished study says about the size of the next one.

    Raises:
        UserError: if there are too few test scores, they do not vary, or the runs cannot be compared; see
            `choose_tested`.
    """
    results, _, chosen, _ = choose_tested(results)
    plan, components = results.plan, estimate_test_components(results.plan, chosen)
    if components is None:
        expected = "a finished study of at least two systems and two seeds"
        raise UserError(where, "too few test scores to estimate the variances", expected)
    _require_spread(components, where)
    names = list(dict.fromkeys(name for pair in plan.headline.comparisons for name in pair))
    values = [own for name in names if (c := chosen[name]) and (own := c.evaluate_queries(plan, "test")) is not None]
    queries = values[0].shape[1]
    sanity = next((family.comparisons for family in plan.families if family.name == "sanity"), ())
    gains = {pair: _compute_gain(plan, chosen, pair, plan.metric) for pair in sanity}
    gain_of = max((pair for pair in sanity if gains[pair] > 0), key=gains.__getitem__, default=None)
    counted = plan.adapt_to_unit(f"{queries:,} queries")
    return StudyPilot(
        components,
        [f"{plan.metric} of {counted}, {len(plan.get_seeds('test'))} seeds"],
        metric=plan.metric,
        queries=queries,
        systems=len({*names} & {*plan.systems}),
        comparisons=len(plan.headline.comparisons) * len(plan.get_family_metrics(plan.headline)),
        alpha=plan.alpha,
        seconds=average_run_seconds(results, queries),
        metrics=_measure_metrics(plan, chosen, gain_of) if gain_of else [],
        gain_of=gain_of or ("", ""),
    )


def make_table_pilot(table: ScoreTable, where: str, metric: str = "") -> StudyPilot:
    """Return what a table of scores says about the size of a study. A note names the systems that are not used.

    Raises:
        UserError: if there are fewer than two systems, seeds or queries, or if the systems differ by the same
            everywhere.
    """
    complete = {name: table.get_complete_scores(name) for name in table.values}
    used = {name: own for name, own in complete.items() if own is not None and len(own) == len(table.seeds)}
    left_out = ", ".join(name for name in table.values if name not in used)
    notes = [f"not used, for lack of scores or seeds: {left_out}"] if left_out else []
    components = estimate_variance_components(list(used.values()))
    if components is None:
        fault = "; ".join(["too little data to estimate the variances", *notes])
        raise UserError(where, fault, "at least two systems with the same seeds and queries, two of each")
    _require_spread(components, where)
    return StudyPilot(components, notes, metric, len(table.queries))


def _require_spread(components: VarianceComponents, where: str) -> None:
    """Raise UserError if differences of systems do not vary: then two queries would find any difference."""
    if not any(components.to_difference_variance()):
        raise UserError(where, "systems that differ by the same on every query of every seed", "scores that vary")


def read_task_pilot(task: str) -> StudyPilot:
    """Return the deviations of the systems of a study in the archive, by the name of its task.

    Example:
        >>> read_task_pilot("docstrings").notes
        ['R10@1 of smoothing-docstrings-bm25: 1,000 queries, 10 seeds']
    """
    study = TASKS[task]
    scores = load_scores(study)
    pilot = make_table_pilot(build_score_table(scores[scores["trained"]]), study, str(scores["metric"].iloc[0]))
    note = f"{pilot.metric} of {study}: {pilot.queries:,} queries, {scores['seed'].nunique()} seeds"
    return pilot._replace(notes=[note])


def estimate_test_components(
    plan: Plan, chosen: Mapping[str, Configuration | None], metric: str | None = None
) -> VarianceComponents | None:
    """Estimate the components from the systems of the headline's family that are complete with all seeds."""
    named = dict.fromkeys(name for pair in plan.headline.comparisons for name in pair)
    values = [c.evaluate_queries(plan, "test", metric) for name in named if (c := chosen[name])]
    seeds = len(plan.get_seeds("test"))
    return estimate_variance_components([own for own in values if own is not None and len(own) == seeds])


def _measure_metrics(
    plan: Plan, chosen: Mapping[str, Configuration | None], gain_of: tuple[str, str]
) -> list[PilotMetric]:
    others = [] if plan.is_correlation else _RANKING_METRICS
    allowed = [name for name in others if not plan.first_stage or get_measure(name).allows_unretrieved]
    found = []
    for name in dict.fromkeys([plan.metric, *plan.metrics, *allowed]):
        components = estimate_test_components(plan, chosen, name)
        if components and (gain := abs(_compute_gain(plan, chosen, gain_of, name))):
            found.append(PilotMetric(name, gain, components))
    return found if found and found[0].name == plan.metric else []


def _compute_gain(plan: Plan, chosen: Mapping[str, Configuration | None], pair: tuple[str, str], metric: str) -> float:
    """Return by how much the first system of a pair is better; 0 if one is incomplete."""
    values = [mean_and_std(c.evaluate_queries(plan, "test", metric)) if (c := chosen[own]) else None for own in pair]
    sign = -1 if metric in LOWER_IS_BETTER else 1
    return sign * (values[0][0] - values[1][0]) if values[0] and values[1] else 0.0
