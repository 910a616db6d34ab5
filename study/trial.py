"""A study's trial: the ranker's trainable, with a record and a W&B run at its end."""

import json
import logging
from importlib.metadata import version
from typing import Any

import pandas as pd

from study import record
from study.archive import keep
from study.causes import cause, story
from study.tracking import Tracking, mirror
from trainables.data.prepared import Prepared
from trainables.job import Job, Outcome
from trainables.metrics import expected_calibration_error
from trainables.ranker import Ranker

_VERSIONS = ("torch", "transformers", "ray", "optuna", "wandb", "numpy", "scipy")


class Trial(Ranker):
    """`config` holds, each as JSON, `job`, `limits`, W&B `labels` (study, variant ...) and its `tracking`."""

    def setup(self, config: dict[str, Any]) -> None:
        """Takes up a job."""
        super().setup(config)
        self._labels: dict[str, Any] = json.loads(config["labels"])
        self._tracking = Tracking.model_validate_json(config["tracking"])

    def finished(self, outcome: Outcome) -> None:
        """Writes the record, then the mirror."""
        specification = self.job.specification
        folder = self.job.cache / "prepared" / specification.data
        frame = Prepared(specification.data, folder, specification.task).candidates(outcome.split)
        columns = {name: frame[name].to_numpy() for name in ("query_id", "document_id", "relevant")}
        scores = pd.DataFrame({"split": outcome.split, **columns, "score": outcome.scores})
        name = f"{outcome.split}/{self.job.metric}"
        summary: dict[str, Any] = {"state": "finished", name: outcome.metric}
        if self.job.specification.system == "cross-encoder":
            summary[f"{outcome.split}/ECE"] = expected_calibration_error(outcome.scores, frame["relevant"])
        cost = {"seconds": outcome.seconds} if self.job.action == "train" else {"test/seconds": outcome.seconds}
        entry = _entry(self.job, self._labels, "finished", summary | cost)
        if self.job.action == "train":
            entry["summary"] |= {
                "instances_trained": outcome.instances_trained + outcome.instances_resumed,
                "instances_resumed": outcome.instances_resumed,
                "instances_reused": outcome.instances_reused,
                "weights": outcome.weights,
            }
            entry |= {"history": outcome.history, "stages_reused": outcome.stages_reused}
        entry["summary"][f"{outcome.split}/states_damaged"] = len(outcome.damaged)
        entry["damaged"] = outcome.damaged
        self._write(entry, scores)

    def failed(self, error: Exception) -> None:
        """Records the cause, so that the configuration is visibly incomplete. The next try may do better, so the mirror
        is left to the end of the study."""
        entry = failed_entry(self.job, self._labels, cause(error, self.limits)) | {"traceback": story(error)}
        keep(self._tracking, self._split, entry, None)

    @property
    def _split(self) -> record.Split:
        return "dev" if self.job.action == "train" else "test"

    def _write(self, entry: dict[str, Any], scores: pd.DataFrame) -> None:
        keep(self._tracking, self._split, entry, scores)
        if self._tracking.records is not None:
            return
        try:
            mirror(self._tracking, entry["id"], self._split)
        except Exception:
            # The run is finished and recorded; the study's end mirrors what is missing.
            logging.getLogger(__name__).warning("run %s is not mirrored to W&B yet", entry["id"], exc_info=True)


def failed_entry(job: Job, labels: dict[str, Any], cause: str) -> dict[str, Any]:
    """The record of an errand that came to nothing."""
    return _entry(job, labels, "failed", {"state": "failed", "error": cause})


def _entry(job: Job, labels: dict[str, Any], state: str, summary: dict[str, Any]) -> dict[str, Any]:
    specification = job.specification
    identity = {"id": specification.id, "configuration_id": specification.configuration_id, "history": []}
    versions = {name: version(name) for name in _VERSIONS}
    return {**identity, "state": state, "config": labels, "summary": summary, "versions": versions}
