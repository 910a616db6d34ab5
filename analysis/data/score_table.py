"""Checks a table of scores and arranges it as an array of systems, seeds and queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

_COLUMNS = ("system", "seed", "query", "value")
_MAX_NAMES = 3
"""Most names that are listed of what is missing."""
_LARGEST, _SMALLEST = 1e100, 1e-6
"""Larger values overflow when squared. Differences are rounded to twelve decimals, so values must not be too small."""


@dataclass(frozen=True)
class ScoreTable:
    """Scores by system.

    Attributes:
        seeds: seeds of all systems, in ascending order; [None] if there are none.
        queries: queries of all systems, in ascending order; [None] if each score is of a whole run.
        values: (seeds, queries) scores by system, NaN where there is no score. A system without seeds has (1,
            queries), if other systems have seeds.
    """

    seeds: list[Any]
    queries: list[Any]
    values: dict[str, Floats]

    def get_complete_scores(self, system: str) -> Floats | None:
        """Return the scores of a system, or None if one is missing."""
        scores = self.values[system]
        return None if np.isnan(scores).any() else scores

    def describe_missing(self) -> list[str]:
        """Describe in words the scores that systems lack."""
        lines = []
        for system, values in self.values.items():
            missing = np.isnan(values)
            whole = [str(self.seeds[row]) for row in np.flatnonzero(missing.all(axis=1))]
            if whole:
                lines.append(f"{system} lacks seed {join_names(whole)}")
            for row in np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1)):
                missing_queries = [str(self.queries[query]) for query in np.flatnonzero(missing[row])]
                seed = f"seed {self.seeds[row]} " if len(values) > 1 else ""
                count = f"{len(missing_queries)} quer{'y' if len(missing_queries) == 1 else 'ies'}"
                lines.append(f"{system} {seed}lacks {count}: {join_names(missing_queries)}")
        return lines


def build_score_table(frame: pd.DataFrame, where: str = "scores") -> ScoreTable:
    """Build the score table from a data frame with one row a score.

    Args:
        frame: columns system and value, and optionally seed and query. Other columns are ignored. A system without
            seeds, such as BM25, has no seed in its rows.
        where: name of the table in errors.

    Raises:
        UserError: if a column is missing, a value is not a finite number, a score occurs twice, or there is only one
            system.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"system": ["A", "A", "B", "B"], "query": [1, 2, 1, 2], "value": [0.5, 1, 0.25, 1]})
        >>> build_score_table(frame).values["A"].tolist()
        [[0.5, 1.0]]
    """
    for name in ("system", "value"):
        if name not in frame:
            raise UserError(where, f"no column {name}", "columns system and value, and optionally seed and query")
    values = _parse_values(frame, where)
    systems, names = _encode_column(frame, "system", where)
    seeds, seed_names = _encode_column(frame, "seed", where)
    queries, query_names = _encode_column(frame, "query", where)
    if len(names) < 2:
        raise UserError(where, f"one system, {names[0]!r}" if names else "no scores", "two systems or more to compare")
    sizes = len(names), len(seed_names) + 1, max(len(query_names), 1)  # the first seed is for systems without seeds
    places = np.ravel_multi_index((systems, seeds + 1, np.maximum(queries, 0)), sizes)
    if "query" in frame and (queries < 0).any():
        raise UserError(
            f"{where}, data row {int(np.argmax(queries < 0)) + 1}",
            "no query",
            "a query in every row, or no column query",
        )
    counts = np.bincount(places, minlength=int(np.prod(sizes)))
    if (counts > 1).any():
        row = int(np.flatnonzero(pd.Series(places).duplicated())[0])
        unread = [str(name) for name in frame.columns if name not in _COLUMNS]
        expected = "each score once" + (f"; ignored columns: {', '.join(unread)}" if unread else "")
        raise UserError(f"{where}, data row {row + 1}", f"{_describe_row(frame, row)} occurs twice", expected)
    full = np.full(sizes, np.nan)
    full.ravel()[places] = values
    by_system: dict[str, Floats] = {}
    for place, name in enumerate(names):
        plain, seeded = full[place, :1], full[place, 1:]
        if not np.isnan(plain).all() and not np.isnan(seeded).all():
            raise UserError(where, f"{name} with and without seeds", "a seed in every row of a system, or in none")
        by_system[str(name)] = plain if np.isnan(seeded).all() else seeded
    return ScoreTable(list(seed_names) or [None], list(query_names) or [None], by_system)


def join_names(names: Sequence[str]) -> str:
    """Return the first names and the number of the others.

    Example:
        >>> join_names(["q1", "q2", "q3", "q4"])
        'q1, q2, q3 and 1 more'
    """
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _parse_values(frame: pd.DataFrame, where: str) -> Floats:
    numbers = pd.to_numeric(frame["value"], errors="coerce").to_numpy(dtype=np.float64)
    size = np.abs(numbers)
    bad = ~(size <= _LARGEST)
    if bad.any():
        row = int(np.argmax(bad))
        value = frame["value"].iloc[row]
        shown = repr(value) if isinstance(value, str) else str(value)
        hint = "; write decimal numbers with a point" if isinstance(value, str) and "," in value else ""
        more = f" (and {int(bad.sum()) - 1} more)" if bad.sum() > 1 else ""
        raise UserError(
            f"{where}, data row {row + 1}", f"value {shown}{more}", f"a finite number, {_LARGEST:g} at most{hint}"
        )
    if len(size) and 0 < size.max() < _SMALLEST:
        raise UserError(where, f"no value beyond {size.max():.3g}", f"values of {_SMALLEST:g} or more, in other units")
    return numbers


def _encode_column(frame: pd.DataFrame, column: str, where: str) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the index of each row's name among the sorted names (-1 if it has none), and the names."""
    if column not in frame:
        return np.full(len(frame), -1), []
    codes, names = pd.factorize(frame[column])
    values = [name.item() if isinstance(name, np.generic) else name for name in names]
    if column == "system" and (codes < 0).any():
        raise UserError(f"{where}, data row {int(np.argmax(codes < 0)) + 1}", "no system", "a system in every row")
    if column == "seed":
        values = [_to_int_seed(name) for name in values]
    if column == "system":
        return codes, values  # in the order of the file
    order = sorted(range(len(values)), key=lambda index: (str(type(values[index])), values[index]))
    rank = np.empty(len(values) + 1, dtype=np.intp)
    rank[order], rank[-1] = np.arange(len(values)), -1
    return rank[codes], [values[index] for index in order]


def _describe_row(frame: pd.DataFrame, row: int) -> str:
    named = [name for name in ("system", "seed", "query") if name in frame]
    return ", ".join(f"{name} {_to_int_seed(frame[name].iloc[row])}" for name in named)


def _to_int_seed(seed: Any) -> Any:
    """Return a whole seed as int: seeds are floats in a column with missing values."""
    return int(seed) if isinstance(seed, float) and seed.is_integer() else seed
