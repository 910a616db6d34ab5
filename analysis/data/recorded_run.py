"""One run of a study: its configuration, state, learning curve and scores."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from records.run_record import History
from records.scores import COLUMNS, Evaluator, GradedPairs, read_scores
from trainables.metrics import get_measure
from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a study.

    Attributes:
        config: its settings.
        summary: its last logged values.
        curve: reads the learning curve.
        files: files of scores, by split.
        url: address of the run on a W&B server, if there is one.
        evaluator: computes metrics from the files of scores.
    """

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
        """One row for each number of instances, in their order; read on first access."""
        return self.curve()

    @property
    def is_finished(self) -> bool:
        """True if the run finished without an error."""
        return self.summary.get("state") == "finished"

    @property
    def seed(self) -> int | None:
        """Seed of the run; None for a system without seeds."""
        seed: int | None = self.config.get("seed")
        return seed

    @property
    def is_difficulty_scorer(self) -> bool:
        """True for the scoring run, which computes difficulty scores and belongs to no system."""
        return self.config.get("role") == "scorer"

    @property
    def has_probabilities(self) -> bool:
        """False if no probability follows from the run's scores.

        They are one logit of two, or the loss compared documents with each other, or was no likelihood.
        """
        return not self.is_single_logit and bool(self.config.get("has_probabilities", True))

    @property
    def is_single_logit(self) -> bool:
        """True if the scores are one of two logits, by `model.ranking_score`."""
        return bool(self.get_settings("model").get("ranking_score", "difference") != "difference")

    @property
    def scoring_precision(self) -> str:
        """Precision that the scores were computed in; empty if it was not recorded."""
        training = self.get_settings("training")
        test = training.get("evaluation_precision")
        if test is None:
            return ""
        dev = training.get("precision")
        return test if dev == test else f"{test} (dev: {dev})"

    @property
    def specification_id(self) -> str:
        """Id of the specification. W&B may show it under several runs; a study counts it once."""
        key: str = self.config.get("specification_id", self.id)
        return key

    def get_settings(self, section: str) -> dict[str, Any]:
        """Return a section of the specification, such as training; empty for a ranking that is not trained."""
        settings: dict[str, Any] = (self.config.get("specification") or {}).get(section) or {}
        return settings

    def read_scores(self, split: str) -> pd.DataFrame:
        """Read the documents of a split: columns split, query_id, document_id, relevant and score, and maybe grade.

        The table is empty if there are none. See `records.scores.read_scores` for the documents that a first
        stage missed.
        """
        return read_scores(self.files[split], split) if split in self.files else pd.DataFrame(columns=COLUMNS)

    def evaluate_queries(self, split: str, metric: str) -> "pd.Series[float]":
        """Return the metric of each query, indexed by query_id in sorted order; NaN where a score is NaN.

        For a metric of sentence pairs, return it for each distinct pair; see `Evaluator.evaluate_queries`.

        Raises:
            UserError: if the metric needs probabilities and the scores have none; see also
                `Evaluator.evaluate_queries`.
        """
        key, where = (split, metric), f"{split} scores of run {self.id}"
        if not self.has_probabilities and get_measure(metric).needs_logits:
            problem = f"{metric} of scores from which no probability follows"
            raise UserError(where, problem, "a metric of rankings")
        if key not in self._values:
            self._values[key] = self.evaluator.evaluate_queries(self.files[split], split, metric, where)
        return self._values[key]

    def read_graded_pairs(self, split: str) -> GradedPairs:
        """Read all sentence pairs of a split."""
        return self.evaluator.read_graded_pairs(self.files[split], split, f"{split} scores of run {self.id}")

    def check_files(self) -> None:
        """Check the SHA-256 of its files, where the summary contains it.

        Raises:
            UserError: if a file is not the recorded one.
        """
        for split, path in self.files.items():
            expected_sha256 = self.summary.get(f"{split}/scores_sha256")
            if expected_sha256 is not None and (sha256 := hash_file(path)) != expected_sha256:
                expected = f"{expected_sha256:.12}..., as the run recorded; rerun the study to recreate them"
                raise UserError(f"{split} scores of run {self.id}", f"SHA-256 {sha256:.12}...", expected)
