"""The record of a trial, as the driver writes it to the study's folder."""

from typing import Any

from trainables.specs.trial import TrialSpec


def make_record(
    trial: TrialSpec, labels: dict[str, Any], state: str, summary: dict[str, Any], provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return the record of a trial, without a learning curve."""
    specification = trial.specification
    identity = {"id": specification.id, "configuration_id": specification.configuration_id, "history": []}
    return {**identity, "state": state, "config": labels, "summary": summary, **provenance}


def make_failed_record(
    trial: TrialSpec, labels: dict[str, Any], cause: str, provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return the record of a trial that failed."""
    return make_record(trial, labels, "failed", {"state": "failed", "error": cause}, provenance)
