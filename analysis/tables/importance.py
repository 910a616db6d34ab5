"""Importance of hyperparameters: the share of the differences between scores that each explains.

Computed by functional analysis of variance (Hutter, Hoos and Leyton-Brown 2014, in Optuna's implementation). A forest
is fitted to the scores. A hyperparameter's importance is the share of the forest's variance over the whole space that
it explains by itself; the rest to 1 is interaction. PED-ANOVA would ask another question: what distinguishes the best
tenth. A tenth of the tens of configurations that a study can afford is too few for that.

Every value of the grid has the same weight, however the values are spaced: the forest receives a number as its index.
A hyperparameter that only some schedules have is judged among the configurations that have it.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.data.configurations import Configuration
from analysis.data.plan import Plan
from analysis.data.results import Results
from analysis.data.search_log import Proposal, SystemSearchLog

if TYPE_CHECKING:
    import optuna

MIN_CONFIGURATIONS = 10
"""Fewest complete configurations for which an importance is reported."""
_TREES, _DEPTH, _SEED = 32, 6, 0
"""With Optuna's default of 64 trees of unlimited depth, 500 configurations take seven times as long; the results differ
by .01.
"""
LEGEND = (
    "Importance: the share of the variance of the {split} score over the searched space that a hyperparameter explains "
    "by itself (fANOVA); the rest to 1 is interaction. Seeds: the share of the variance between the configurations' "
    "means that is expected from the seeds alone; the nearer it is to 1, the less the importance means."
)


@dataclass(frozen=True)
class Importance:
    """Importance of one hyperparameter of a searched system.

    Attributes:
        system: name of the system.
        hyperparameter: name of the hyperparameter.
        n_configurations: number of complete configurations that have it.
        shares: importance by objective. Empty if it cannot be computed; `reason` then says why.
        reason: reason for empty `shares`.
        seeds: the system's share of variance from seeds, see `compute_seeds_share`.
    """

    system: str
    hyperparameter: str
    n_configurations: int
    shares: dict[str, float]
    reason: str = ""
    seeds: float | None = None


def compute_importances(results: Results, configurations: Sequence[Configuration]) -> list[Importance]:
    """Compute the importance of each hyperparameter with several values, for every searched system.

    Systems are in the plan's order, hyperparameters in the grid's.
    """
    plan, searches = results.plan, results.search.systems if results.search else {}
    rows: list[Importance] = []
    for system in (name for name in plan.all_systems if name in searches):
        seeds = compute_seeds_share(plan, searches[system], configurations)
        importances = _compute_system_importances(system, searches[system], plan.search_objectives)
        rows += [replace(row, seeds=seeds) for row in importances]
    return rows


def compute_seeds_share(plan: Plan, search: SystemSearchLog, configurations: Sequence[Configuration]) -> float | None:
    """Compute the share of the variance between a system's complete configurations that comes from seeds.

    The configurations have the same seeds, so an effect of a seed that all share is not counted. The share is
    MS_residual / (S V), at most 1, with V the variance of the configurations' means over S seeds. None with one seed
    or one configuration.
    """
    complete = {p.configuration_id for p in search.get_proposals("complete")}
    values_of = [c.evaluate_queries(plan, "search") for c in configurations if c.id in complete]
    scores = np.array([values.mean(axis=1) for values in values_of if values is not None])  # (configurations, seeds)
    if len(scores) < 2 or scores.shape[1] < 2:
        return None
    residual = scores - scores.mean(axis=1, keepdims=True) - scores.mean(axis=0) + scores.mean()
    mean_square = float((residual**2).sum()) / ((len(scores) - 1) * (scores.shape[1] - 1))
    variance = float(scores.mean(axis=1).var(ddof=1))
    return min(1.0, mean_square / scores.shape[1] / variance) if variance > 0 else None


def format_table(rows: Sequence[Importance], objectives: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows as plain text."""
    lines = [
        [
            row.system,
            row.hyperparameter.replace("_", " "),
            str(row.n_configurations),
            *(f"{row.shares[name]:.2f}" if row.shares else row.reason for name in objectives),
            "-" if row.seeds is None else f"{row.seeds:.2f}",
        ]
        for row in rows
    ]
    columns = [f"importance, {name}" for name in objectives]
    return ["system", "hyperparameter", "configurations", *columns, "seeds"], lines


@contextmanager
def silence_optuna() -> Iterator[None]:
    """Suppress Optuna's log, except errors, and its warnings that an interface is experimental."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _compute_system_importances(system: str, search: SystemSearchLog, objectives: tuple[str, ...]) -> list[Importance]:
    """Compute the importances of one system.

    The hyperparameters that all complete configurations have are judged together, each of the others among the
    configurations that have it.
    """
    complete = search.get_complete(objectives)
    known: dict[tuple[int, ...], dict[str, dict[str, float]]] = {}
    rows = []
    for name in search.grid:
        having = [p for p in complete if name in p.values]
        tried = len({p.values[name] for p in having})
        reason, shares = "", dict[str, float]()
        if len(having) < MIN_CONFIGURATIONS:
            reason = f"fewer than {MIN_CONFIGURATIONS}"
        elif tried < 2:
            reason = "one value was tried"
        else:
            key = tuple(p.number for p in having)
            if key not in known:
                known[key] = {objective: _compute_shares(having, search, objective) for objective in objectives}
            shares = {objective: known[key][objective][name] for objective in objectives if known[key][objective]}
            if len(shares) < len(objectives):
                reason, shares = "all scores are equal", {}
        rows.append(Importance(system, name, len(having), shares, reason))
    return rows


def _compute_shares(proposals: list[Proposal], search: SystemSearchLog, objective: str) -> dict[str, float]:
    """Compute the importance of each hyperparameter that all proposals have; empty if scores are equal."""
    import optuna
    from optuna.importance import FanovaImportanceEvaluator

    scores = [p.objectives[objective] for p in proposals if p.objectives is not None]
    if np.ptp(scores) == 0:
        return {}
    names = [name for name in search.grid if all(name in p.values for p in proposals)]
    axes = {name: _build_axis(search, name) for name in names}
    distributions = {name: axis.distribution for name, axis in axes.items()}
    with silence_optuna():
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=_SEED))
    for proposal, score in zip(proposals, scores, strict=True):
        params = {name: axis.places[proposal.values[name]] for name, axis in axes.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=score))
    evaluator = FanovaImportanceEvaluator(n_trees=_TREES, max_depth=_DEPTH, seed=_SEED)
    importances = evaluator.evaluate(study, params=names)
    return {name: float(importances[name]) for name in names}


class _Axis(NamedTuple):
    """A hyperparameter as the forest receives it."""

    distribution: "optuna.distributions.BaseDistribution"
    places: dict[int | float | str, float | str]
    """Input of the forest by value: the index of a number among all values, or the text itself."""


def _build_axis(search: SystemSearchLog, name: str) -> _Axis:
    """Build the axis from the values of the grid and any others that were tried.

    The range of numbers extends half a step beyond the first and the last, so that every value has the same share of
    it.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    tried = [p.values[name] for p in search.proposals if name in p.values]
    values = sorted({*search.grid[name], *tried}, key=lambda value: (isinstance(value, str), value))
    places = {value: value if isinstance(value, str) else float(i) for i, value in enumerate(values)}
    if isinstance(values[0], str):
        return _Axis(CategoricalDistribution(values), places)
    return _Axis(FloatDistribution(-0.5, len(values) - 0.5), places)
