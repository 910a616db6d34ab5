"""One run of a study: what was asked for, how it ended, its curve, and its scores."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data.json_files import History
from analysis.data.scores import COLUMNS, Evaluator, GradedPairs, read_scores
from trainables.utils.errors import UserError


@dataclass(frozen=True, eq=False)
class Run:
    """One run: configuration, last values, curve; `url` is where a W&B server shows it, if one does."""

    id: str
    config: dict[str, Any]
    summary: dict[str, Any]
    curve: Callable[[], History] = field(default=list, repr=False)
    files: dict[str, Path] = field(default_factory=dict, repr=False)
    url: str | None = None
    evaluator: Evaluator = field(default_factory=Evaluator, repr=False)
    _values: dict[tuple[str, str], "pd.Series[float]"] = field(default_factory=dict, repr=False)

    @cached_property
    def history(self) -> History:
        """One row for each number of instances, in their order; read when it is asked for."""
        return self.curve()

    @property
    def is_finished(self) -> bool:
        return self.summary.get("state") == "finished"

    @property
    def seed(self) -> int | None:
        seed: int | None = self.config.get("seed")
        return seed

    @property
    def is_difficulty_scorer(self) -> bool:
        """Whether it was trained only to tell how difficult queries are: it is of no system."""
        return self.config.get("role") == "scorer"

    @property
    def specification_id(self) -> str:
        """What was run, by its id: W&B may show it under several runs, a study counts it once."""
        key: str = self.config.get("specification_id", self.id)
        return key

    def __eq__(self, other: object) -> bool:
        """Whether the same was told of both, wherever their files lie."""
        if not isinstance(other, Run):
            return NotImplemented
        return (self.id, self.config, self.summary, self.history) == (
            other.id, other.config, other.summary, other.history,
        )  # fmt: skip

    def read_scores(self, split: str) -> pd.DataFrame:
        """Candidates of a split, columns split, query_id, document_id, relevant, score; empty if there are none."""
        return read_scores(self.files[split], split) if split in self.files else pd.DataFrame(columns=COLUMNS)

    def evaluate_queries(self, split: str, metric: str) -> "pd.Series[float]":
        """The metric of each query, indexed by query_id in sorted order; NaN where a score is NaN.

        Of a metric of sentence pairs, of each distinct pair; see `Evaluator.per_query`.
        """
        key = (split, metric)
        if key not in self._values:
            where = f"{split} scores of run {self.id}"
            self._values[key] = self.evaluator.evaluate_queries(self.files[split], split, metric, where)
        return self._values[key]

    def evaluate_overall(self, split: str, metrics: Sequence[str]) -> list[float]:
        """One number of each of these metrics of sentence pairs; NaN where a score of theirs is."""
        return self.evaluator.evaluate_overall(self.files[split], split, metrics, f"{split} scores of run {self.id}")

    def read_graded_pairs(self, split: str) -> GradedPairs:
        """All sentence pairs of a split."""
        return self.evaluator.read_graded_pairs(self.files[split], split, f"{split} scores of run {self.id}")

    def check_files(self) -> None:
        """Raises UserError unless its files are those that its summary names by their SHA-256, as far as it does."""
        for split, path in self.files.items():
            expected_sha256 = self.summary.get(f"{split}/scores_sha256")
            if expected_sha256 is not None:
                with path.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != expected_sha256:
                    where = f"{split} scores of run {self.id}"
                    expected = f"{expected_sha256:.12}..., which the run noted; run again, the study makes them anew"
                    raise UserError(where, f"SHA-256 {found:.12}...", expected)
