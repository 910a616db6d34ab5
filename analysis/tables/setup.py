"""The setup of a study as the rows of one table: model, data, training, candidates, date, code and machines."""

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.data.cautions import count_machines
from analysis.data.study_results import Results
from analysis.tables.section import Section

_LEGEND = (
    "Settings that all systems share; searched ones have all their values. Layers and lengths are those of the model, "
    "instances are training examples. With the same code, data and model, scores are reproducible to the last digit on "
    "the same kind of machine."
)


def build_setup_section(results: Results) -> Section | None:
    """Build the table of what the study has a value for."""
    settings: dict[str, dict[str, Any]] = (results.plan.model_extra or {}).get("settings") or {}
    rows = {
        **_describe_inputs(results, settings),
        **_describe_training(results, settings),
        **_describe_code(results),
        "machine": "; ".join(sorted({kind for kinds in count_machines(results).values() for kind in kinds})),
    }
    known = [[name, value] for name, value in rows.items() if value]
    return Section("Setup", ["setup", "value"], known, _LEGEND) if known else None


def _describe_inputs(results: Results, settings: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    plan, setup = results.plan, results.setup
    model, task = settings.get("model", {}), settings.get("task", {})
    names = (setup.model, setup.data) if setup else ("", plan.task)
    words, length = task.get("document_words"), model.get("max_length")
    lengths = [f"{length} tokens"] if length else []
    fingerprint = (plan.data or {}).get("fingerprint")
    return {
        "model": _join_with_digest(names[0], model.get("name")),
        "layers": ", ".join(_list_layers(model)),
        "adapters": "; ".join(_list_adapters(model.get("lora") or {}, settings.get("search", {}).get("lora") or {})),
        "length": ", ".join([*lengths, *([f"documents cut to {words:,} words"] if words else [])]),
        "data": _join_with_digest(names[1], fingerprint and f"fingerprint {fingerprint}"),
        "candidates": "; ".join(_list_candidates(results, task, "negatives" in settings.get("training", {}))),
    }


def _join_with_digest(name: str, digest: str | None) -> str:
    return f"{name} ({digest})" if name and digest else name or digest or ""


def _list_layers(model: Mapping[str, Any]) -> Iterator[str]:
    if model:
        yield str(model.get("num_layers") or "all")
    if frozen := model.get("frozen_layers"):
        yield f"the first {frozen} frozen"
    if fresh := model.get("reinit_layers"):
        yield f"the last {fresh} with random weights"


def _list_adapters(lora: Mapping[str, Any], searched: Mapping[str, Any]) -> Iterator[str]:
    for name in ("rank", "alpha", "dropout"):
        if values := [value for value in searched.get(name, [lora.get(name)]) if value]:
            yield f"{name} {', '.join(f'{value:g}' for value in values)}"


def _list_candidates(results: Results, task: Mapping[str, Any], trains_on_negatives: bool) -> Iterator[str]:
    """Yield the number of candidates and their sampler, of dev and test and of training."""
    number, stage = task.get("candidates"), results.plan.first_stage
    if stage:
        yield stage.source
    elif number:
        yield f"{number}{_format_sampler(task.get('evaluation_sampler'))}"
    if number and "sampler" in task and trains_on_negatives:
        others = task.get("train_negatives") or number - 1
        yield f"in training all relevant documents and {others} others{_format_sampler(task['sampler'])}"


def _format_sampler(sampler: Mapping[str, Any] | None) -> str:
    return f" by {sampler['name']}" if sampler else ""


def _describe_training(results: Results, settings: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    training, search = settings.get("training", {}), settings.get("search", {})

    def list_values(name: str) -> str:
        values = search.get(name) or [training.get(name)]
        return ", ".join(f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in values if value)

    return {
        "instances": list_values("instances"),
        "batch size": list_values("batch_size"),
        "learning rate": list_values("learning_rate"),
        "negatives": list_values("negatives"),
        "loss": ", ".join(sorted({str(run.config["loss"]) for run in results.runs if run.config.get("loss")})),
    }


def _describe_code(results: Results) -> dict[str, str]:
    """Return date and commit of the start, and the commits and versions of the runs, which may be of a later start."""
    setup, versions = results.setup, dict[str, set[str]]()
    commits = {str(run.config["commit"]) for run in results.runs if run.config.get("commit")}
    for run in results.runs:
        for name, version in (run.config.get("versions") or {}).items():
            versions.setdefault(name, set()).add(str(version))
    return {
        "date": setup.date if setup else "",
        "commit": ", ".join(sorted(commits)) or (setup.commit if setup else None) or "",
        "versions": ", ".join(f"{name} {' and '.join(sorted(found))}" for name, found in sorted(versions.items())),
    }
