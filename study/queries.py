"""What is known of the queries that a study evaluates: turns, domain, difficulty. The report groups them by it."""

import pandas as pd

from analysis.queries import FILE
from study.configuration import Resolved
from study.settings import Study
from trainables.files import whole_file


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
    if path.is_file():
        before = pd.read_parquet(path).set_index("query_id")
        for name in before.columns.difference(made.columns):
            made[name] = before[name].reindex(made["query_id"]).to_numpy()
    if len(made.columns) > 2 and not (path.is_file() and made.equals(pd.read_parquet(path))):
        with whole_file(path) as draft:
            made.to_parquet(draft, index=False)
