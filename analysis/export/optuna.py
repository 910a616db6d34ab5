"""Writes the searches as one sqlite file for Optuna and its dashboard: one Optuna study a system.

    optuna.load_study(study_name="T-LS", storage="sqlite:///report/optuna.db")

The same searches give the same file: its times are constant, not those of the clock.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis.data.study_results import Results
from records.plan import Plan
from records.search_log import ParamValue, Proposal, SystemSearchLog
from trainables.metrics import LOWER_IS_BETTER

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

FILE_NAME = "optuna.db"
_TIME = datetime(2000, 1, 1)
_STATES = {"complete": "COMPLETE", "dropped": "PRUNED", "incomplete": "FAIL", "unknown": "WAITING"}
"""State of a proposal -> state of its Optuna trial. Unknown means that its runs have not all ended."""


@contextmanager
def _silence_optuna() -> Iterator[None]:
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


def write_optuna_file(results: Results, path: Path) -> None:
    """Write the searches of a study to a sqlite file, replacing it; `results.search` must not be None."""
    from optuna.storages import RDBStorage
    from sqlalchemy import URL

    assert results.search is not None
    path.unlink(missing_ok=True)
    with _silence_optuna():
        storage = RDBStorage(str(URL.create("sqlite", database=str(path))))
        try:
            for system, search in results.search.systems.items():
                _add_study(search, system, results, storage)
        finally:
            storage.remove_session()
            storage.engine.dispose()


def _add_study(search: SystemSearchLog, system: str, results: Results, storage: "BaseStorage") -> None:
    """Store the search of a system as an Optuna study. Its trials are the proposals in their order."""
    import optuna

    plan = results.plan
    direction: Literal["minimize", "maximize"] = "minimize" if plan.metric in LOWER_IS_BETTER else "maximize"
    study = optuna.create_study(storage=storage, study_name=system, direction=direction)
    study.set_metric_names([f"{plan.search_split} {plan.metric}"])
    shared = {"study": plan.study, "task": plan.task, "plan": results.plan_hash, "seeds": list(plan.seeds)}
    of_system = {"sampler": search.sampler, "size": search.size, "wanted": search.wanted, "winner": search.winner}
    for key, value in {**shared, **of_system}.items():
        study.set_user_attr(key, value)
    domains = to_distributions(search)
    study.add_trials([_to_frozen_trial(proposal, plan, domains) for proposal in search.proposals])


def to_distributions(search: SystemSearchLog) -> "dict[str, BaseDistribution]":
    """Return the distribution of each hyperparameter, including those with a single value.

    Names are categories. Numbers are a range from the smallest to the largest value.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    values: dict[str, dict[ParamValue, None]] = {name: dict.fromkeys(grid) for name, grid in search.grid.items()}
    for proposal in search.proposals:
        for name, value in proposal.values.items():
            values.setdefault(name, {})[value] = None
    distributions: dict[str, BaseDistribution] = {}
    for name, several in values.items():
        numbers = sorted(value for value in several if not isinstance(value, str))
        if len(numbers) < len(several):
            distributions[name] = CategoricalDistribution(list(several))
        elif all(isinstance(value, int) for value in numbers):
            distributions[name] = IntDistribution(int(numbers[0]), int(numbers[-1]))
        else:
            distributions[name] = FloatDistribution(numbers[0], numbers[-1])
    return distributions


def _to_frozen_trial(proposal: Proposal, plan: Plan, domains: "dict[str, BaseDistribution]") -> "FrozenTrial":
    """Return a proposal as a trial.

    One that racing pruned has as its last intermediate value the mean over its seeds, at their number.
    """
    from optuna.trial import TrialState, create_trial

    state = TrialState[_STATES[proposal.state]]
    if state == TrialState.COMPLETE and proposal.mean is None:
        state = TrialState.FAIL
    partial = {len(proposal.seeds): proposal.mean} if proposal.mean is not None else None
    trial = create_trial(
        state=state,
        value=proposal.mean if state == TrialState.COMPLETE else None,
        params=dict(proposal.values),
        distributions={name: domains[name] for name in proposal.values},
        user_attrs={
            "configuration_id": proposal.configuration_id,
            "seeds": list(proposal.seeds),
            "state": proposal.state,
            "untuned": proposal.untuned,
            f"mean {plan.metric}": proposal.mean,
        },
        intermediate_values=partial if state == TrialState.PRUNED else None,
    )
    ended = state.is_finished()
    trial.datetime_start, trial.datetime_complete = (_TIME, _TIME) if ended else (None, None)
    return trial
