"""The results of a study as the readers return them: its plan, its runs and statistics of its data."""

from dataclasses import dataclass, field

import pandas as pd

from analysis.data.recorded_run import Run
from analysis.data.same_queries import check_same_queries
from records.data_statistics import DataStatistics
from records.plan import Plan
from records.plan_file import Setup
from records.search_log import SearchLog
from trainables.utils.errors import UserError


@dataclass(frozen=True, eq=False)
class Results:
    """A study: its plan, its runs and what else was recorded.

    Attributes:
        runs: every run that finished or failed, in order of id.
        search: log of the searches. None if the study did not write one.
        unfinished: runs that neither finished nor failed: they still train, or were killed.
        queries: attributes of the queries, as returned by `records.queries.read_queries`. None if the
            study did not write them.
        statistics: statistics of the data. None if the study did not write them.
        server_address: address of the project, if the study was read from a server.
        setup: names of model and data, date and commit. None if the study did not write them.
    """

    plan: Plan
    plan_hash: str
    runs: list[Run]
    search: SearchLog | None = None
    unfinished: list[Run] = field(default_factory=list)
    queries: pd.DataFrame | None = None
    statistics: DataStatistics | None = None
    server_address: str | None = None
    setup: Setup | None = None


def per_query(results: Results, split: str, metric: str) -> pd.DataFrame:
    """Return a table of the metric of every query for every finished run, computed from the scores.

    Scoring runs are left out.

    Returns:
        Columns system, configuration, the strength by its name, switch, seed, query_id, value, in order of system,
            configuration, seed and query. The value is NaN where a score is NaN.

    Raises:
        UserError: if no run can have scores on the split, or if runs do not rank the same queries.

    Example:
        >>> family = {"name": "variants", "comparisons": [("LS", "BERT")]}
        >>> settings = {"study": "demo", "task": "toy", "alpha": 0.05, "seeds": (1, 2), "metric": "R10@1"}
        >>> plan = Plan(**settings, systems=("BERT", "LS"), families=(family,))
        >>> list(per_query(Results(plan, "hash", runs=[]), "test", "R10@1"))
        ['system', 'configuration', 'epsilon', 'switch', 'seed', 'query_id', 'value']
    """
    frames, strength = [], results.plan.strength
    splits = (results.plan.search_split, results.plan.test_split)
    if split not in splits:
        raise UserError("split", split, " or ".join(splits))
    for run in results.runs:
        if run.is_finished and split in run.files and not run.is_difficulty_scorer:
            values = run.evaluate_queries(split, metric)
            columns = {"system": run.config["variant"], "configuration": run.config["configuration_id"]}
            columns |= {key: run.config.get(key) for key in (strength, "switch", "seed")}
            frames.append(pd.DataFrame({"query_id": values.index, "value": values.to_numpy()}).assign(**columns))
    order = ["system", "configuration", strength, "switch", "seed", "query_id", "value"]
    if not frames:
        return pd.DataFrame(columns=order)
    check_same_queries(results.plan, [run for run in results.runs if run.is_finished and split in run.files], split)
    table = pd.concat([frame.astype({strength: float, "switch": float, "seed": "Int64"}) for frame in frames])
    return table[order].sort_values(["system", "configuration", "seed", "query_id"], ignore_index=True)
