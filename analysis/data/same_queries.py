"""Whether the runs of a study were evaluated on the same things, without which their differences mean nothing."""

from collections.abc import Iterable

import pandas as pd

from analysis.data.plan import Plan
from analysis.data.run import Run
from analysis.data.scores import GradedPairs
from trainables.utils.errors import UserError


def check_same_queries(plan: Plan, runs: Iterable[Run], split: str) -> None:
    """Raises UserError unless all runs rank the same queries of a split, as many as the plan expects.

    Of sentence pairs, unless all have the same ones in the same sets, with the same gold similarities, whichever of
    them the plan's metric is about.
    """
    reference: pd.Index[str] | None = None
    pairs: GradedPairs | None = None
    for run in runs:
        queries = run.evaluate_queries(split, plan.metric).index
        own = run.read_graded_pairs(split) if plan.is_correlation else None
        count = len(queries) if own is None else int(own.units.max()) + 1
        expected = plan.expected_queries.get(split, count)
        where = f"{split} scores of run {run.id} ({run.config.get('variant')})"
        if count != expected:
            raise UserError(where, plan.adapt_to_unit(f"{count} queries"), f"the {expected} of the plan")
        if reference is not None and not queries.equals(reference):
            lacking = len(reference.difference(queries))
            found = plan.adapt_to_unit(f"not the queries of the other runs ({lacking} are missing)")
            raise UserError(where, found, plan.adapt_to_unit("the same queries"))
        reference = queries
        if own is not None and pairs is not None and not own.has_same_pairs(pairs):
            raise UserError(where, "not the sets of the other runs", "the same pairs in each, with the same gold")
        pairs = own
