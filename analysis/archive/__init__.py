"""The archive of seeds: the score of every query in every run of this project's studies of rankers.

README.md in this folder is its data card. `python -m docs.scripts.evidence keep NAME FOLDER` adds a study.
"""

from pathlib import Path

import pandas as pd

from trainables.utils.checksums import verify_file
from trainables.utils.errors import UserError

FILE = Path(__file__).with_name("scores.parquet")
"""The archive; its checksum is in scores.parquet.sha256."""


def load_scores(study: str | None = None, file: Path = FILE) -> pd.DataFrame:
    """Return the scores of all studies, or those of one, which `analysis.compare.compare` takes.

    Args:
        study: name of the study. If None, all.
        file: the archive.

    Returns:
        A row for each query of each run: study, task, metric, system, trained, seed, query and value. The data card
        says what they are.

    Raises:
        UserError: if there is no such study.
        DamagedError: if the file does not match its checksum.

    Example:
        >>> scores = load_scores("smoothing-qqp-bm25")
        >>> scores["system"].nunique(), scores["seed"].nunique(), scores["query"].nunique()
        (7, 10, 369)
    """
    scores = pd.read_parquet(verify_file(file))
    if study is None:
        return scores
    names = scores["study"].cat.categories
    if study not in names:
        raise UserError("study", study, f"one of {', '.join(names)}")
    own = scores[scores["study"] == study].reset_index(drop=True)
    kinds = own.select_dtypes("category").columns
    return own.assign(**{name: own[name].cat.remove_unused_categories() for name in kinds})
