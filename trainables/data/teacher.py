"""Scores of a teacher, which a distillation learns instead of those of the negative sampler.

They are joined with the training candidates once, when the data is prepared, as `teacher-<digest>.parquet` in the
folder of the prepared data. The digest is that of the user's file.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.text.text_files import FileLocation, quote_text
from trainables.utils.checksums import is_intact, verify_file, write_with_checksum
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from trainables.utils.arrays import Floats

KEY = "task.teacher"
_COLUMNS = ("query_id", "document_id", "score")


def get_teacher_path(folder: Path, digest: str) -> Path:
    """Return the path of the joined scores in a folder of prepared data."""
    return folder / f"teacher-{digest}.parquet"


def write_teacher_scores(folder: Path, read_candidates: "Callable[[], pd.DataFrame]", path: Path, digest: str) -> None:
    """Join the scores of a file with the training candidates, unless this was done before.

    The file is a TREC run, or Parquet with query_id, document_id and score. It may have further rows.

    Raises:
        UserError: if the file is malformed, has a score twice or one that is not finite, or lacks one.
    """
    target = get_teacher_path(folder, digest)
    if is_intact(target, remove_damaged=True):
        return
    import pandas as pd

    candidates = read_candidates()
    pairs = list(zip(candidates["query_id"], candidates["document_id"], strict=True))
    known = {*pairs}
    scores: dict[tuple[str, str], float] = {}
    for where, query, document, score in _read_scores(path):
        if (query, document) not in known:
            continue
        if (query, document) in scores:
            raise UserError(where, f"query {quote_text(query)} and document {quote_text(document)} again", "one score")
        if not math.isfinite(score):
            raise UserError(where, f"the score {score}", "a finite number")
        scores[query, document] = score
    missing = [pair for pair in pairs if pair not in scores]
    if missing:
        query, document = map(quote_text, missing[0])
        problem = f"{path.name} has no score for {len(missing)} of {len(pairs)} training candidates"
        expected = f"a score for each, such as query {query} and document {document}"
        raise UserError(KEY, problem, expected)
    with write_with_checksum(target) as draft:
        pd.DataFrame({"score": [scores[pair] for pair in pairs]}).to_parquet(draft, index=False)


def read_teacher_scores(folder: Path, digest: str) -> "Floats":
    """Return the scores of the training candidates, in their order, shape (candidates,).

    Raises:
        DamagedError: if the file is missing or differs from what was written.
    """
    import pandas as pd

    scores: Floats = pd.read_parquet(verify_file(get_teacher_path(folder, digest)))["score"].to_numpy(dtype=float)
    return scores


def _read_scores(path: Path) -> Iterator[tuple[str, str, str, float]]:
    """Yield location, query, document and score of every row."""
    if path.suffix == ".parquet":
        table = _read_parquet(path)
        rows = zip(*(table[name] for name in _COLUMNS), strict=True)
        for number, (query, document, score) in enumerate(rows, 1):
            yield f"{path}, row {number}", str(query), str(document), float(score)
        return
    from trainables.text.trec_files import read_run_blocks  # imported here, since it loads numpy

    for block in read_run_blocks(path):
        for line, query, document, score in zip(*(block[name].tolist() for name in ("line", *_COLUMNS)), strict=True):
            where = str(FileLocation(path, line))
            if math.isnan(score):
                raise UserError(where, "a run without scores", "query, Q0, document, rank, score, name")
            yield where, query, document, score


def _read_parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd

    expected = f"Parquet with the columns {', '.join(_COLUMNS)}"
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UserError(str(path), "not readable", expected) from error
    absent = [name for name in _COLUMNS if name not in table]
    if absent:
        raise UserError(str(path), f"no column {', '.join(absent)}", expected)
    if not pd.api.types.is_numeric_dtype(table["score"]):
        raise UserError(f"{path}, column score", str(table["score"].dtype), "numbers")
    for name in _COLUMNS[:2]:
        if pd.api.types.is_float_dtype(table[name]):
            raise UserError(f"{path}, column {name}", "numbers with decimals", "ids as text or whole numbers")
    return table
