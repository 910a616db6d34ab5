"""A study's trial: a run, with a record at its end."""

import json
from typing import Any

import pandas as pd
import ray

from study.execution.nodes import register_hosts
from study.records import run_record as record
from study.records.provenance import get_hardware, get_versions
from study.records.remote import upload_result
from study.records.run_name import format_run_name
from study.tracking import Tracking
from study.utils.error_text import format_redacted_traceback, is_machine_fault, summarize_error
from trainables.specs.plugin import get_trainable
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.utils.cli import print_escaped
from trainables.worker.actor import RunTrainable


class StudyTrainable(RunTrainable):
    """`config` holds, each as JSON, `job`, `limits`, the run's `labels` (study, variant ...), `tracking`,
    `commit`, the driver's, and `shown`, where W&B shows the run, which Ray's log of the trial names."""

    def setup(self, config: dict[str, Any]) -> None:
        """Takes up a job."""
        super().setup(config)
        self._labels: dict[str, Any] = json.loads(config["labels"])
        self._tracking = Tracking.model_validate_json(config["tracking"])
        self._commit: str | None = json.loads(config.get("commit", "null"))
        location = config.get("shown") or f"W&B {self._tracking.mode}, project {self._tracking.project}"
        print_escaped(
            f"{self.job.action} {self.job.specification.id} {format_run_name(self._labels)}: {location}", flush=True
        )
        self._n_rows_sent = 0
        if ray.is_initialized():
            register_hosts(ray.nodes())  # type: ignore[no-untyped-call]

    def step(self) -> dict[str, Any]:
        """As the worker's; where runs are shown while they train, with the rows that have come to the curve since the
        last step, as JSON, and the place of the first of them."""
        result = super().step()
        if self._tracking.mode != "online" or self._run is None or "instances" not in result:
            return result
        rows, start = self._run.history, self._n_rows_sent
        self._n_rows_sent = len(rows)
        return {**result, "rows": json.dumps(rows[start:]), "start": start}

    def on_run_complete(self, outcome: TrialResult) -> None:
        """Writes the record."""
        specification = self.job.specification
        runs = get_trainable(specification).training_backend
        frame = runs.load_scored_pairs(self.job, outcome.split)
        columns = {name: frame[name].to_numpy() for name in frame}
        scores = pd.DataFrame({"split": outcome.split, **columns, "score": outcome.scores})
        name = f"{outcome.split}/{self.job.metric}"
        summary: dict[str, Any] = {"state": "finished", name: outcome.metric}
        extra_metrics = runs.compute_extra_metrics(self.job, outcome.scores, frame)
        summary |= {f"{outcome.split}/{name}": value for name, value in extra_metrics.items()}
        cost = {"seconds": outcome.seconds} if self.job.action == "train" else {"test/seconds": outcome.seconds}
        entry = _make_record(self.job, self._labels, "finished", summary | cost, self._provenance)
        if self.job.action == "train":
            entry["summary"] |= {
                "instances_trained": outcome.instances_trained + outcome.instances_resumed,
                "instances_resumed": outcome.instances_resumed,
                "instances_reused": outcome.instances_reused,
                "weights": outcome.weights_hash,
            }
            if outcome.texts:
                entry["summary"] |= {"texts": outcome.texts, "texts_truncated": outcome.texts_truncated}
            if training := specification.training:
                best = outcome.best_evaluation
                entry["summary"]["checkpoint_instances"] = best.instances if best else training.instances
                if best:  # else the curve's last would pass for it
                    entry["summary"][f"dev/{training.checkpoint}"] = best.value
            history = self._run.history if self._run else []
            entry |= {"history": history, "stages_reused": outcome.checkpoints_reused}
        entry["summary"][f"{outcome.split}/states_damaged"] = len(outcome.damaged)
        entry["damaged"] = outcome.damaged
        upload_result(self._tracking.folder, self._tracking.records, self._split, entry, scores)

    def on_run_error(self, error: Exception) -> None:
        """Records the cause, so that the configuration is visibly incomplete; a fault of the machine is none of its."""
        if is_machine_fault(error, self.limits):
            return
        entry = make_failed_record(self.job, self._labels, summarize_error(error, self.limits), self._provenance) | {
            "traceback": format_redacted_traceback(error)
        }
        upload_result(self._tracking.folder, self._tracking.records, self._split, entry, None)

    @property
    def _split(self) -> record.Split:
        return "dev" if self.job.action == "train" else "test"

    @property
    def _provenance(self) -> dict[str, Any]:
        """What the run is made with; its Ray job, where it is one's, leads to Ray's logs of it."""
        job = {"ray": {"job": ray.get_runtime_context().get_job_id()}} if ray.is_initialized() else {}
        return {"versions": get_versions(), "hardware": get_hardware(), "commit": self._commit, **job}


def make_failed_record(
    trial: TrialSpec, labels: dict[str, Any], cause: str, provenance: dict[str, Any]
) -> dict[str, Any]:
    """The record of an errand that came to nothing.

    Args:
        job: the errand.
        labels: of its run.
        cause: in one line.
        made: what it was made with, as far as that is known: versions, hardware, commit, ray.
    """
    return _make_record(trial, labels, "failed", {"state": "failed", "error": cause}, provenance)


def _make_record(
    trial: TrialSpec, labels: dict[str, Any], state: str, summary: dict[str, Any], provenance: dict[str, Any]
) -> dict[str, Any]:
    specification = trial.specification
    identity = {"id": specification.id, "configuration_id": specification.configuration_id, "history": []}
    return {**identity, "state": state, "config": labels, "summary": summary, **provenance}
