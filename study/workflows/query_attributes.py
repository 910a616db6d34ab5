"""What is known of the queries that a study evaluates: turns, domain, difficulty. The report groups them by it."""

from pathlib import Path

import pandas as pd

from analysis.data.query_attributes import FILE
from study.config.schema import Study
from study.scheduling.trials import Resolved
from trainables.utils.files import whole_file


def write(study: Study, resolved: Resolved, scorer: str) -> None:
    """Writes what the trainable tells of them: `split, query_id` and whatever else. What it does not tell any more
    stays as it was.

    Args:
        study: its task without paths.
        resolved: its data, and what its scores are made with.
        scorer: id of the run that tells how difficult queries are.
    """
    made = study.kind.trainable.data.attributes(study, resolved, scorer)
    if made is None:
        return
    path = study.folder / FILE
    before = _before(path)
    if before is not None:
        known = before.set_index("query_id")
        for name in known.columns.difference(made.columns):
            made[name] = known[name].reindex(made["query_id"]).to_numpy()
    if len(made.columns) > 2 and (before is None or not made.equals(before)):
        with whole_file(path) as draft:
            made.to_parquet(draft, index=False)


def _before(path: Path) -> pd.DataFrame | None:
    """What the file holds; None where there is none, or it is damaged."""
    try:
        return pd.read_parquet(path) if path.is_file() else None
    except (OSError, ValueError, KeyError):
        return None
