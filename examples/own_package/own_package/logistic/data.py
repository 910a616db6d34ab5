"""The data backend: draws the data from the settings of the task (`trainables.specs.plugin.DataBackend`)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from own_package.logistic.specification import PointsTask
from trainables.utils.hashing import hash_json
from trainables.utils.random import make_generator


def draw_points(task: PointsTask, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (queries, candidates, features) points and (queries, candidates) 1 for the relevant candidate."""
    direction, draw = make_generator(0, "direction", 0).normal(size=4), make_generator(0, split, 0)
    points = draw.normal(size=(task.queries, task.candidates, 4))
    best = (points @ direction + draw.normal(size=points.shape[:2])).argmax(axis=1)
    return points, (np.arange(task.candidates) == best[:, None]).astype(np.int64)


class Points(NamedTuple):
    """The prepared data. Nothing is on disk."""

    settings: PointsTask
    fingerprint: str
    domains: None = None

    def read_metadata(self) -> dict[str, Any]:
        """Return fingerprint, settings and counts."""
        splits = {split: {"queries": self.settings.queries} for split in ("train", "dev", "test")}
        return {"fingerprint": self.fingerprint, "settings": self.settings.model_dump(mode="json"), "splits": splits}


def prepare_data(task: PointsTask, cache: Path, progress: Callable[[str], None]) -> Points:
    """Return the data. The settings determine everything, so their hash is the fingerprint."""
    return Points(task, hash_json(["points", task.model_dump(mode="json")]))


def find_prepared_data(task: PointsTask, cache: Path) -> Points:
    """Return the data, which are always there."""
    return prepare_data(task, cache, print)


def check_data(study: Any, prepared: Points) -> None:
    """Accept all data."""


def describe_data(prepared: Points) -> dict[str, Any]:
    """Return what the report shows of the data."""
    return {**prepared.read_metadata(), "skipped": {}}


def summarize_data(study: Any, prepared: Points) -> Iterator[str]:
    """Yield the lines of `--prepare`."""
    yield f"task points, {prepared.settings.queries} queries in each split"


def compute_query_attributes(study: Any, resolved: Any, scorer: str) -> None:
    """Return None: the report does not group the queries."""
