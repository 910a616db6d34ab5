"""Reads tables of scores: one row a score, of any origin or of PyTerrier, or a table of systems by tasks, as MTEB's."""

import warnings
from pathlib import Path

import pandas as pd

from trainables.text.text_files import open_binary
from trainables.utils.errors import UTF8_TEXT, UserError

_TEXT = ("system", "query", "name", "qid", "measure")
_PYTERRIER = {"name": "system", "qid": "query"}
"""Columns of `pt.Experiment(..., perquery=True)` and ours."""
_MTEB = {"model_name": "system", "task_name": "query", "score": "value"}
"""Columns of `BenchmarkResults.to_dataframe(format="long")` of MTEB and ours."""
_BY_ROW = {"task_name": "query", "task": "query", "query": "query", "model_name": "system", "model": "system",
           "system": "system"}  # fmt: skip
"""First column of a table of systems by tasks -> what its rows are."""
_EXPECTED = "a CSV or Parquet file of scores"


def read_score_file(path: Path, metric: str | None = None) -> pd.DataFrame:
    """Read a table of scores from a CSV or Parquet file.

    The columns of a CSV file may also be separated by tabs or semicolons, with a point in decimal numbers.

    The columns are those of `analysis.data.score_table.build_score_table`, or those of `pt.Experiment(...,
    perquery=True)` of PyTerrier: name, qid, measure and value. Where there is a column measure, one measure is read.
    Without a column value, it is a table of systems by tasks: the first column says which of the two its rows are, and
    the others are numbers, except seed. A task counts as a query.

    Raises:
        UserError: if the file does not exist, is not such a file, or does not have the measure.
    """
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
            frame = frame.reset_index() if any(frame.index.names) else frame
        else:
            with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
                frame = pd.read_csv(
                    path,
                    sep=_find_separator(path),
                    index_col=False,
                    dtype=dict.fromkeys(_TEXT, str),
                    skipinitialspace=True,
                    keep_default_na=False,
                    na_values=[""],
                ).rename(columns=str.strip)
            for name in {*_TEXT, "seed"} & {*frame}:
                if not pd.api.types.is_numeric_dtype(frame[name]):
                    frame[name] = frame[name].str.strip()
    except FileNotFoundError as error:
        raise UserError(str(path), "no such file", _EXPECTED) from error
    except UnicodeDecodeError as error:
        raise UserError(str(path), "not UTF-8", UTF8_TEXT) from error
    except pd.errors.ParserWarning as error:
        raise UserError(str(path), "rows with more fields than the header", "a name for every column") from error
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise UserError(str(path), error, _EXPECTED) from error
    if not {"system", "query"} & {*frame} and {*_PYTERRIER, "measure"} <= {*frame}:
        frame = frame.rename(columns=_PYTERRIER)
    if {*_MTEB} <= {*frame}:
        frame = frame[[*_MTEB]].rename(columns=_MTEB)
    if "value" not in frame and len(frame.columns) > 1 and frame.columns[0] in _BY_ROW:
        frame = _melt_table(frame, path)
    return _select_measure(frame, metric, path)


def _melt_table(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return one row a score of a table of systems by tasks."""
    first = str(frame.columns[0])
    rows = _BY_ROW[first]
    named = [first, *({"seed"} & {*frame})]
    values = frame.drop(columns=named)
    if texts := [name for name in values if not pd.api.types.is_numeric_dtype(values[name])]:
        found = f"the column {texts[0]}, which has texts"
        raise UserError(str(path), found, f"a column value, or a table of {first} by others with numbers alone")
    other = "system" if rows == "query" else "query"
    return frame.melt(named, var_name=other).rename(columns={first: rows}).dropna(subset="value", ignore_index=True)


def _find_separator(path: Path) -> str:
    """Return what separates the names of columns in the first line: commas, or else tabs or semicolons."""
    with open_binary(path, _EXPECTED) as file:
        header = file.readline(1 << 16)
    return next((sign for sign in ",\t;" if sign.encode() in header), ",")


def _select_measure(frame: pd.DataFrame, metric: str | None, path: Path) -> pd.DataFrame:
    if "measure" not in frame:
        if metric is not None:
            raise UserError("--metric", metric, f"a column measure in {path}, or no --metric")
        return frame
    measures = [str(name) for name in frame["measure"].dropna().unique()]
    if metric is None and len(measures) > 1:
        raise UserError(str(path), f"{len(measures)} measures, {', '.join(measures)}", "one of them, named by --metric")
    if metric is not None and metric not in measures:
        raise UserError("--metric", metric, f"a measure of {path}: {', '.join(measures)}")
    selected = frame if metric is None else frame[frame["measure"] == metric].reset_index(drop=True)
    return selected.drop(columns="measure")
