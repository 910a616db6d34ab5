"""Scores of a teacher, which a distillation learns instead of those of the negative sampler.

They are joined with the training candidates once, when the data is prepared, as `teacher-<digest>.parquet` in the
folder of the prepared data. The digest is that of the user's file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.text.text_files import FileLocation, quote_text
from trainables.utils.checksums import is_intact, verify_file, write_with_checksum
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from trainables.utils.arrays import Floats

KEY = "task.teacher"
_KEYS = ["query_id", "document_id"]


def get_teacher_path(folder: Path, digest: str) -> Path:
    """Return the path of the joined scores in a folder of prepared data."""
    return folder / f"teacher-{digest}.parquet"


def write_teacher_scores(folder: Path, read_candidates: "Callable[[], pd.DataFrame]", path: Path, digest: str) -> None:
    """Join the scores of a TREC run with the training candidates, unless this was done before.

    The run may have further rows.

    Raises:
        UserError: if the file is malformed, or has a score twice, or lacks one.
    """
    target = get_teacher_path(folder, digest)
    if is_intact(target, remove_damaged=True):
        return
    import pandas as pd

    from trainables.text.trec_files import read_run_blocks  # imported here, since it loads numpy

    candidates = read_candidates()[_KEYS]
    found = pd.concat(block.merge(candidates, on=_KEYS) for block in read_run_blocks(path))
    joined = candidates.merge(found, how="left", on=_KEYS)
    for is_wrong, problem, expected in (
        (joined.duplicated(_KEYS), "again", "one score"),
        (joined["line"].notna() & joined["score"].isna(), "without a score", "query, Q0, document, rank, score, name"),
    ):
        if is_wrong.any():
            row = joined[is_wrong].iloc[0]
            where = str(FileLocation(path, int(row["line"])))
            raise UserError(where, f"{_describe_pair(row)} {problem}", expected)
    is_missing = joined["score"].isna()
    if is_missing.any():
        problem = f"{path.name} has no score for {is_missing.sum()} of {len(joined)} training candidates"
        raise UserError(KEY, problem, f"a score for each, such as {_describe_pair(joined[is_missing].iloc[0])}")
    with write_with_checksum(target) as draft:
        joined[["score"]].to_parquet(draft, index=False)


def _describe_pair(row: "pd.Series") -> str:
    return f"query {quote_text(row['query_id'])} and document {quote_text(row['document_id'])}"


def read_teacher_scores(folder: Path, digest: str) -> "Floats":
    """Return the scores of the training candidates, in their order, shape (candidates,).

    Raises:
        DamagedError: if the file is missing or differs from what was written.
    """
    import pandas as pd

    scores: Floats = pd.read_parquet(verify_file(get_teacher_path(folder, digest)))["score"].to_numpy(dtype=float)
    return scores
