"""A study as its readers return it: one tidy collection of runs, with the plan that they belong to."""

from dataclasses import dataclass, field

import pandas as pd

from analysis.data.plan import Plan
from analysis.data.run import Run
from analysis.data.same_queries import check_same_queries
from analysis.data.search_log import SearchLog


@dataclass(frozen=True, eq=False)
class Results:
    """A study: its plan, that plan's hash, every run that finished or failed, by id, and the ids of those killed.

    `search` is what its searches asked for and were told, `queries` what is known of the queries, as
    `analysis.data.query_attributes.read_queries` has it; None where the study did not write that down.
    """

    plan: Plan
    plan_hash: str
    runs: list[Run]
    search: SearchLog | None = None
    unfinished: list[str] = field(default_factory=list)
    queries: pd.DataFrame | None = None

    def __eq__(self, other: object) -> bool:
        """Whether the same was told of both, but for runs that did not end, of which the records tell nothing."""
        if not isinstance(other, Results):
            return NotImplemented
        if self.queries is None or other.queries is None:
            alike = self.queries is other.queries
        else:
            alike = self.queries.equals(other.queries)
        mine, theirs = ((one.plan, one.plan_hash, one.runs, one.search) for one in (self, other))
        return alike and mine == theirs


def per_query(results: Results, split: str, metric: str) -> pd.DataFrame:
    """One row a finished run of a system and query, the metric computed from the scores.

    Returns:
        Columns system, configuration, the strength by its name, switch, seed, query_id, value, in order of system,
        configuration, seed and query; value is NaN where a score is NaN.

    Raises:
        UserError: if runs do not rank the same queries.
    """
    frames, strength = [], results.plan.strength
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
