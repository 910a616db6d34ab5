"""Anyone's scores as a cube of systems, seeds and queries, with whatever is wrong with them named before it counts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

_COLUMNS = ("system", "seed", "query", "value")
_MAX_NAMES = 3
"""Names listed of what is missing."""
_LARGEST, _SMALLEST = 1e100, 1e-6
"""Values beyond the first overflow when squared; differences are rounded to twelve decimals."""


@dataclass(frozen=True)
class ScoreTable:
    """Scores by system.

    Attributes:
        seeds: of all systems, in ascending order; [None] where there are none.
        queries: of all systems, in ascending order; [None] where each score is of a whole run.
        values: by system, (seeds, queries), or (1, queries) of a system without seeds among others that have them; NaN
            where there is no score.
    """

    seeds: list[Any]
    queries: list[Any]
    values: dict[str, Floats]

    def get_complete_scores(self, system: str) -> Floats | None:
        """Its scores, None if one is missing."""
        found = self.values[system]
        return None if np.isnan(found).any() else found

    def describe_missing(self) -> list[str]:
        """What is missing of whom, in words."""
        found = []
        for system, values in self.values.items():
            missing = np.isnan(values)
            whole = [str(self.seeds[place]) for place in np.flatnonzero(missing.all(axis=1))]
            if whole:
                found.append(f"{system} lacks seed {_join_names(whole)}")
            for place in np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1)):
                lacking = [str(self.queries[query]) for query in np.flatnonzero(missing[place])]
                of = f"seed {self.seeds[place]} " if len(values) > 1 else ""
                found.append(f"{system} {of}lacks {len(lacking)} queries: {_join_names(lacking)}")
        return found


def build_score_table(frame: pd.DataFrame, where: str = "scores") -> ScoreTable:
    """Scores from a table with a row a score.

    Args:
        frame: columns system and value, and seed and query as far as there are such; others are not read. A system
            without seeds, such as BM25, has none in its rows.
        where: what an error calls the table.

    Raises:
        UserError: a column is missing, a value is no finite number, a score is there twice, there is one system.
    """
    for name in ("system", "value"):
        if name not in frame:
            raise UserError(
                where, f"no column {name}", "columns system, value and, as far as there are such, seed, query"
            )
    values = _parse_values(frame, where)
    systems, names = _encode_column(frame, "system", where)
    seeds, seed_names = _encode_column(frame, "seed", where)
    queries, query_names = _encode_column(frame, "query", where)
    if len(names) < 2:
        raise UserError(where, f"one system, {names[0]!r}" if names else "no scores", "two systems or more to compare")
    sizes = len(names), len(seed_names) + 1, max(len(query_names), 1)  # the first seed is that of systems without one
    places = np.ravel_multi_index((systems, seeds + 1, np.maximum(queries, 0)), sizes)
    if "query" in frame and (queries < 0).any():
        raise UserError(
            f"{where}, data row {int(np.argmax(queries < 0)) + 1}",
            "no query",
            "one in every row, or no such column",
        )
    counts = np.bincount(places, minlength=int(np.prod(sizes)))
    if (counts > 1).any():
        row = int(np.flatnonzero(pd.Series(places).duplicated())[0])
        unread = [str(name) for name in frame.columns if name not in _COLUMNS]
        expected = "each score once" + (f"; not read: {', '.join(unread)}" if unread else "")
        raise UserError(f"{where}, data row {row + 1}", f"{_describe_row(frame, row)} once more", expected)
    full = np.full(sizes, np.nan)
    full.ravel()[places] = values
    found: dict[str, Floats] = {}
    for place, name in enumerate(names):
        plain, seeded = full[place, :1], full[place, 1:]
        if not np.isnan(plain).all() and not np.isnan(seeded).all():
            raise UserError(where, f"{name} with and without seeds", "a seed in every row of a system, or in none")
        found[str(name)] = plain if np.isnan(seeded).all() else seeded
    return ScoreTable(list(seed_names) or [None], list(query_names) or [None], found)


def read_score_file(path: Path) -> pd.DataFrame:
    """A table of scores from a CSV or Parquet file.

    Raises:
        UserError: it is not there, or is none.
    """
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            known = [name for name in _COLUMNS if name in pq.read_schema(path).names]
            text = [name for name in known if name != "value"]
            frame: pd.DataFrame = pq.read_table(path, columns=known, read_dictionary=text).to_pandas()
        else:
            frame = pd.read_csv(
                path, dtype={"system": str, "query": str}, skipinitialspace=True, keep_default_na=False, na_values=[""]
            )
            frame = frame.rename(columns=str.strip)
            for name in {"system", "seed", "query"} & {*frame}:
                if not pd.api.types.is_numeric_dtype(frame[name]):
                    frame[name] = frame[name].str.strip()
    except FileNotFoundError as error:
        raise UserError(str(path), "no such file", "a CSV or Parquet file of scores") from error
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise UserError(str(path), error, "a CSV or Parquet file of scores") from error
    return frame


def _parse_values(frame: pd.DataFrame, where: str) -> Floats:
    numbers = pd.to_numeric(frame["value"], errors="coerce").to_numpy(dtype=np.float64)
    size = np.abs(numbers)
    bad = ~(size <= _LARGEST)
    if bad.any():
        row = int(np.argmax(bad))
        value = frame["value"].iloc[row]
        shown = repr(value) if isinstance(value, str) else str(value)
        more = f" (and {int(bad.sum()) - 1} more)" if bad.sum() > 1 else ""
        raise UserError(
            f"{where}, data row {row + 1}", f"value {shown}{more}", f"a finite number, {_LARGEST:g} at most"
        )
    if len(size) and 0 < size.max() < _SMALLEST:
        raise UserError(where, f"no value beyond {size.max():.3g}", f"values of {_SMALLEST:g} or more, in other units")
    return numbers


def _encode_column(frame: pd.DataFrame, column: str, where: str) -> tuple[NDArray[np.intp], list[Any]]:
    """Of every row the place of its name among the sorted names, -1 where it has none."""
    if column not in frame:
        return np.full(len(frame), -1), []
    codes, names = pd.factorize(frame[column])
    listed = [name.item() if isinstance(name, np.generic) else name for name in names]
    if column == "system" and (codes < 0).any():
        raise UserError(f"{where}, data row {int(np.argmax(codes < 0)) + 1}", "no system", "a system in every row")
    if column == "seed":
        listed = [_to_int_seed(name) for name in listed]
    if column == "system":
        return codes, listed  # in the order of the file
    order = sorted(range(len(listed)), key=lambda place: (str(type(listed[place])), listed[place]))
    rank = np.empty(len(listed) + 1, dtype=np.intp)
    rank[order], rank[-1] = np.arange(len(listed)), -1
    return rank[codes], [listed[place] for place in order]


def _describe_row(frame: pd.DataFrame, row: int) -> str:
    named = [name for name in ("system", "seed", "query") if name in frame]
    return ", ".join(f"{name} {_to_int_seed(frame[name].iloc[row])}" for name in named)


def _to_int_seed(seed: Any) -> Any:
    """Seeds are floats where a system without any stands among them."""
    return int(seed) if isinstance(seed, float) and seed.is_integer() else seed


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
