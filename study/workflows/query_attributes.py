"""Attributes of the evaluated queries (turns, domain, difficulty), by which the report groups them."""

from pathlib import Path

import pandas as pd

from records.queries import QUERIES_FILE, encode_queries, is_intact_table
from study.config.schema import Study
from study.scheduling.trials import ResolvedInputs
from trainables.utils.files import write_atomically


def write_query_attributes(study: Study, resolved: ResolvedInputs, scorer_id: str) -> None:
    """Write the attributes of the evaluated queries to the study's folder.

    The file has the columns `split` and `query_id` and one for each attribute. An attribute that the trainable no
    longer provides keeps its previous values.
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
    content = encode_queries(attributes)
    if len(attributes.columns) > 2 and not (path.is_file() and path.read_bytes() == content):
        with write_atomically(path) as draft:
            draft.write_bytes(content)


def _read_previous(path: Path) -> pd.DataFrame | None:
    """Return the content of the file, or None if it does not exist or is damaged."""
    try:
        queries = pd.read_parquet(path) if path.is_file() else None
    except (OSError, ValueError, KeyError):
        return None
    return queries if queries is not None and is_intact_table(queries) else None
