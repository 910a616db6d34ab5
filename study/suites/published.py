"""Reads published results, which the report of a suite shows next to the measured ones.

They are in TOML files in `study/studies/published` or next to the suite file, one file a paper and one table a result:

    [table-2]
    source = "Penha and Hauff (2021), Table 2"
    metric = "R10@1"
    split = "test"

    [table-2.scores.QQP]           # labels of a study, in the order of the suite's axes
    BERT = 0.595                   # or {mean = 0.595, sd = 0.01}, or {runs = [0.59, 0.60]}
"""

import os
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from records.suite_plan import PublishedResults, PublishedScore
from study.config.schema import Text
from trainables.utils.base_settings import Settings
from trainables.utils.errors import UserError

FOLDER = Path(__file__).parents[1] / "studies" / "published"


class _ScoreInFile(Settings):
    """A score in a file: its mean and standard deviation, or the runs that it is the mean of."""

    mean: float | None = None
    sd: float | None = None
    """Standard deviation over runs. If None, it was not published."""
    runs: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _check_has_value(self) -> Self:
        if self.mean is None and not self.runs:
            raise ValueError("a score needs a mean or runs")
        return self

    def summarize(self, scale: float) -> PublishedScore:
        """Return mean and sd in units of the metric; `scale` is the factor from these to the figures of the file."""
        mean = statistics.fmean(self.runs) if self.runs else self.mean
        sd = statistics.stdev(self.runs) if len(self.runs) > 1 else self.sd
        assert mean is not None
        return PublishedScore(mean=mean / scale, sd=None if sd is None else sd / scale)


class PublishedTable(Settings):
    """A table or figure of a paper."""

    source: Text
    """Paper, and table or figure."""
    metric: Text
    split: Literal["dev", "test"] = "test"
    scale: Annotated[float, Field(gt=0)] = 1.0
    """Factor from units of the metric to the published figures, e.g. 100 for percent."""
    note: str = ""
    """What a reader of the figures must know."""
    scores: dict[str, Any]
    """Scores by system, within a table for each label."""


def read_published(name: str, source: str) -> PublishedResults:
    """Read a table of published results, and return them in units of the metric.

    Args:
        name: FILE.TABLE, e.g. wsls-2021.table-2. The file is next to the suite file or in `study/studies/published`.
        source: the suite file.

    Raises:
        UserError: if there is no such table, or it is not valid.

    Example:
        >>> read_published("wsls-2021.table-2", "suite.toml").scores["QQP"]["BERT"].mean
        0.595
    """
    stem, _, table = name.partition(".")
    own = Path(os.path.expanduser(source)).parent / f"{stem}.toml"
    paths = [path for path in (own, FOLDER / f"{stem}.toml") if path.is_file()]
    place, tables = f"{source}: published", _read_tables(paths[0], f"{source}: published") if paths else {}
    if table not in tables:
        shipped = [f"{path.stem}.{key}" for path in sorted(FOLDER.glob("*.toml")) for key in _read_tables(path, place)]
        raise UserError(place, repr(name), f"one of {', '.join(shipped)}, or FILE.TABLE of a file next to the suite")
    try:
        parsed = PublishedTable.model_validate(tables[table])
        scores = {
            "/".join(labels): {
                system: _parse_score(value).summarize(parsed.scale) for system, value in by_system.items()
            }
            for labels, by_system in _iter_studies(parsed.scores)
        }
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{place}: {name}", ".".join(map(str, first["loc"])), first["msg"]) from None
    return PublishedResults(scores=scores, **parsed.model_dump(include={"source", "metric", "split", "note"}))


def _read_tables(path: Path, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UserError(place, f"{path.name} is not TOML: {error}", "a file of published results") from None


def _parse_score(value: Any) -> _ScoreInFile:
    return _ScoreInFile.model_validate(value if isinstance(value, Mapping) else {"mean": value})


def _is_score(value: Any) -> bool:
    return not isinstance(value, Mapping) or value.keys() <= _ScoreInFile.model_fields.keys()


def _iter_studies(
    table: Mapping[str, Any], labels: Sequence[str] = ()
) -> Iterator[tuple[Sequence[str], Mapping[str, Any]]]:
    """Yield the labels of each study and its scores by system."""
    if all(map(_is_score, table.values())):
        yield labels, table
        return
    for label, inner in table.items():
        yield from _iter_studies(inner, (*labels, label))
