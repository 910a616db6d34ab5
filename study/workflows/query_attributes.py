"""What is known of the queries that a study evaluates: turns, domain, difficulty. The report groups them by it."""

from pathlib import Path

import pandas as pd

from analysis.data.query_attributes import QUERIES_FILE
from study.config.schema import Study
from study.scheduling.trials import ResolvedInputs
from trainables.utils.files import write_atomically


def write_query_attributes(study: Study, resolved: ResolvedInputs, scorer_id: str) -> None:
    """Writes what the trainable tells of them: `split, query_id` and whatever else. What it does not tell any more
    stays as it was.

    Args:
        study: its task without paths.
        resolved: its data, and what its scores are made with.
        scorer: id of the run that tells how difficult queries are.
    """
    attributes = study.study_type.trainable.data_backend.compute_query_attributes(study, resolved, scorer_id)
    if attributes is None:
        return
    path = study.folder / QUERIES_FILE
    previous = _read_previous(path)
    if previous is not None:
        known = previous.set_index("query_id")
        for name in known.columns.difference(attributes.columns):
            attributes[name] = known[name].reindex(attributes["query_id"]).to_numpy()
    if len(attributes.columns) > 2 and (previous is None or not attributes.equals(previous)):
        with write_atomically(path) as draft:
            attributes.to_parquet(draft, index=False)


def _read_previous(path: Path) -> pd.DataFrame | None:
    """What the file holds; None where there is none, or it is damaged."""
    try:
        return pd.read_parquet(path) if path.is_file() else None
    except (OSError, ValueError, KeyError):
        return None
