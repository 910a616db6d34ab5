"""Tune trainable of a study: executes a run and reports its record to the driver."""

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import ray

from records.scores import encode_scores
from study.execution.failure import TrialError
from study.execution.nodes import register_hosts
from study.folder.provenance import get_hardware, get_versions
from study.folder.run_name import format_run_name
from study.folder.trial_record import make_failed_record, make_record
from study.tracking import Tracking
from study.utils.error_text import format_redacted_traceback, is_machine_fault, summarize_error
from trainables.specs.plugin import get_trainable
from trainables.specs.trial import TrialResult
from trainables.utils.cli import print_escaped
from trainables.worker.actor import RunTrainable
from trainables.worker.gpu_errors import GpuFaultError, GpuPlace, classify_gpu_error


class StudyTrainable(RunTrainable):
    """Trial of a study.

    It writes nothing to the study's folder, which only the driver needs to see. Its last result contains `record`, the
    run record as JSON, and `scores`, the content of the file of scores. Both are bound for the driver, see
    `study.execution.searcher.TrialCallback`.

    `config` contains as JSON: `trial`, `limits`, the run's `labels` (study, variant ...), `tracking` and the driver's
    `commit`. `shown` is the W&B URL of the run, for Ray's log of the trial.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Start with a new trial."""
        super().setup(config)
        self._labels: dict[str, Any] = json.loads(config["labels"])
        self._tracking = Tracking.model_validate_json(config["tracking"])
        self._commit: str | None = json.loads(config.get("commit", "null"))
        location = config.get("shown") or f"W&B {self._tracking.mode}, project {self._tracking.project}"
        print_escaped(
            f"{self.trial.action} {self.trial.specification.id} {format_run_name(self._labels)}: {location}", flush=True
        )
        self._n_rows_sent = 0
        if ray.is_initialized():
            register_hosts(ray.nodes())  # type: ignore[no-untyped-call]

    def step(self) -> dict[str, Any]:
        """Run one step, and report the new rows of the learning curve if runs are shown while they train.

        `rows` contains them as JSON, `start` the index of the first one in the curve.

        Raises:
            TrialError: the run failed, so that its configuration is incomplete.
            Exception: a fault of the machine, which is not recorded because the run did not cause it.
        """
        try:
            result = super().step()
        except Exception as error:
            cause, kind = summarize_error(error, self.limits), classify_gpu_error(error)
            if kind in ("broken", "crowded"):
                raise GpuFaultError(_get_gpu_place(), cause, is_broken=kind == "broken") from error
            if is_machine_fault(error, self.limits):
                raise
            record = make_failed_record(self.trial, self._labels, cause, self._provenance)
            record["traceback"] = format_redacted_traceback(error)
            raise TrialError(_make_transferable(error), record) from error
        if self._tracking.mode != "online" or self._run is None or "instances" not in result:
            return result
        rows, start = self._run.history, self._n_rows_sent
        self._n_rows_sent = len(rows)
        return {**result, "rows": json.dumps(rows[start:]), "start": start}

    def make_report(self, outcome: TrialResult) -> dict[str, Any]:
        """Return the run record and the scores."""
        specification = self.trial.specification
        backend = get_trainable(specification).training_backend
        frame = backend.load_scored_pairs(self.trial, outcome.split) if outcome.pairs is None else outcome.pairs
        tables = [_make_score_table(outcome.split, frame, outcome.scores)]
        for label, values in outcome.collections.items():
            tables.append(_make_score_table(label, backend.load_scored_pairs(self.trial, label), values))
        scores = _join_score_tables(tables)
        name = f"{outcome.split}/{self.trial.metric}"
        summary: dict[str, Any] = {"state": "finished", name: outcome.metric}
        extra_metrics = backend.compute_extra_metrics(self.trial, outcome.scores, frame)
        summary |= {f"{outcome.split}/{name}": value for name, value in extra_metrics.items()}
        cost = {"seconds": outcome.seconds} if self.trial.action == "train" else {"test/seconds": outcome.seconds}
        entry = make_record(self.trial, self._labels, "finished", summary | cost, self._provenance)
        if self.trial.action == "train":
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
                if best:  # otherwise the last value of the curve would be taken for it
                    entry["summary"][f"dev/{training.checkpoint}"] = best.value
            history = self._run.history if self._run else []
            entry |= {"history": history, "stages_reused": outcome.checkpoints_reused}
        entry["summary"][f"{outcome.split}/states_damaged"] = len(outcome.damaged)
        entry["damaged"] = outcome.damaged
        return {"record": json.dumps(entry, allow_nan=False), "scores": encode_scores(scores)}

    @property
    def _provenance(self) -> dict[str, Any]:
        """Versions, hardware and commit of the run, and the id of its Ray job, by which Ray's logs are found."""
        job = {"ray": {"job": ray.get_runtime_context().get_job_id()}} if ray.is_initialized() else {}
        versions = get_versions(self.trial)
        return {"versions": versions, "hardware": get_hardware(), "commit": self._commit, **job}


def _make_score_table(split: str, frame: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    columns = {name: frame[name].to_numpy() for name in frame}
    return pd.DataFrame({"split": split, **columns, "score": scores})


def _join_score_tables(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return all rows; a grade is missing where only another table has grades."""
    if len(tables) == 1:
        return tables[0]
    joined = pd.concat(tables, ignore_index=True)
    return joined.astype({"grade": "Int8"}) if "grade" in joined else joined


def _get_gpu_place() -> GpuPlace:
    context = ray.get_runtime_context()
    return GpuPlace(context.get_node_id(), ",".join(context.get_accelerator_ids()["GPU"]))


def _make_transferable(error: Exception) -> Exception:
    """Return the error, or one with the same text if another process could not read it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an exception's own code may raise anything
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
