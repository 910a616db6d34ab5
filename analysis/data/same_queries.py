"""Checks that the runs of a study were evaluated on the same queries, so that they can be compared."""

from collections.abc import Iterable

import pandas as pd

from analysis.data.recorded_run import Run
from records.plan import Plan
from records.scores import GradedPairs
from trainables.utils.errors import UserError


def check_same_queries(plan: Plan, runs: Iterable[Run], split: str) -> None:
    """Check that all runs rank the same queries of a split, as many as the plan expects.

    For sentence pairs, all runs must have the same pairs in the same sets with the same gold similarities. This
    includes pairs that the plan's metric does not cover.

    Raises:
        UserError: if two runs differ, or the number of queries is not the plan's.
    """
    reference: pd.Index[str] | None = None
    pairs: GradedPairs | None = None
    for run in runs:
        queries = run.evaluate_queries(split, plan.get_metric(split)).index
        graded = run.read_graded_pairs(split) if plan.is_correlation else None
        count = len(queries) if graded is None else int(graded.units.max()) + 1
        expected = plan.expected_queries.get(split, count)
        where = f"{split} scores of run {run.id} ({run.config.get('variant')})"
        if count != expected:
            raise UserError(where, plan.adapt_to_unit(f"{count} queries"), f"the {expected} of the plan")
        if reference is not None and not queries.equals(reference):
            missing = len(reference.difference(queries))
            found = plan.adapt_to_unit(f"not the queries of the other runs ({missing} are missing)")
            raise UserError(where, found, plan.adapt_to_unit("the same queries"))
        reference = queries
        if graded is not None and pairs is not None and not graded.has_same_pairs(pairs):
            raise UserError(where, "not the sets of the other runs", "the same pairs in each, with the same gold")
        pairs = graded
