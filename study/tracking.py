"""Records mirrored to Weights & Biases: one W&B run a specification, under the same id.

The record is written first; a mirror that was interrupted is made again from it. Offline files, artifacts included,
stay inside the study's folder, and nothing is uploaded unless the mode says online.
"""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Literal

from analysis.wandb_files import is_whole
from study import record
from trainables.files import write_json
from trainables.specification import Settings, digest

Mode = Literal["offline", "online", "disabled"]
_PATIENCE = 90.0
"""Seconds, as wandb's own init_timeout."""


class Tracking(Settings):
    """Where runs are mirrored to."""

    mode: Mode
    project: str
    folder: Path
    """The study's folder; W&B's files go to its wandb/."""
    records: str | None = None
    """URL where trials put their records, since not every node sees the folder; who drives the study mirrors then."""


def _environment(folder: Path) -> None:
    """Everything wandb stages or caches goes into the study's wandb folder, and nothing is asked or printed."""
    place = folder / "wandb"
    place.mkdir(parents=True, exist_ok=True)
    for variable in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        os.environ[variable] = str(place / ".data")
    os.environ["WANDB_SILENT"] = "true"


def _write(tracking: Tracking, run_id: str, group: str | None, kind: str, content: dict[str, Any]) -> str | None:
    """One W&B session: config, history, summary, and score files as artifacts. Returns where a server shows the run."""
    _environment(tracking.folder)
    import wandb

    run = wandb.init(
        mode=tracking.mode,
        project=tracking.project,
        dir=str(tracking.folder),
        id=run_id,
        name=content["name"],
        group=group,
        job_type=kind,
        config=content["config"],
        resume="allow",
        settings=wandb.Settings(
            console="off",
            x_disable_stats=True,
            x_disable_meta=True,
            disable_git=True,
            save_code=False,
            silent=True,
            host="study",
        ),
    )
    run.define_metric("instances")
    run.define_metric("*", step_metric="instances")
    for row in content.get("history", []):
        run.log(row)
    for split, path in content.get("scores", {}).items():
        artifact = wandb.Artifact(f"scores-{split}-{run_id}", type="scores")
        artifact.add_file(str(path), name="scores.parquet")
        run.log_artifact(artifact)
    run.summary.update(content.get("summary", {}))
    file, url = Path(run.settings.sync_file), run.url if tracking.mode == "online" else None
    run.finish(exit_code=1 if content.get("summary", {}).get("state") == "failed" else 0)
    if tracking.mode == "offline":
        _await_whole(file)
    return url


def _await_whole(file: Path) -> None:
    """`finish` returns before wandb's service has written the last records: a mirror is made when they are on disk."""
    deadline = time.monotonic() + _PATIENCE
    while not (file.is_file() and is_whole(file)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file}: wandb did not write the end of the run within {_PATIENCE:.0f} s")
        time.sleep(0.01)


def mirrored(tracking: Tracking, run_id: str, split: record.Split = "dev") -> bool:
    """Whether this evaluation's mirror is complete."""
    return tracking.mode == "disabled" or _done(_marker(tracking, run_id, split), tracking.mode)


def mirror(tracking: Tracking, run_id: str, split: record.Split = "dev") -> None:
    """Mirrors a recorded evaluation; a test evaluation resumes the W&B run of its training."""
    entry = record.read(tracking.folder, run_id, split)
    if tracking.mode == "disabled" or entry is None:
        return
    main = entry if split == "dev" else record.read(tracking.folder, run_id)
    assert main is not None
    if split == "dev" and tracking.mode == "offline":
        _drop_partial(tracking, run_id)
    config = main["config"]
    place = record.folder(tracking.folder, run_id)
    scores = place / ("scores.parquet" if split == "dev" else "test_scores.parquet")
    content = {
        "name": f"{config['variant']} seed {config['seed']}" if config["seed"] is not None else config["variant"],
        "config": config,
        "history": record.history(tracking.folder, run_id) if split == "dev" else [],
        "summary": entry["summary"],
        "scores": {split: scores} if entry["state"] == "finished" else {},
    }
    url = _write(tracking, run_id, main["configuration_id"], config["role"], content)
    if entry["state"] == "finished":
        write_json(_marker(tracking, run_id, split), {"mode": tracking.mode} | ({"url": url} if url else {}))


def mirror_plan(tracking: Tracking, plan: dict[str, Any], plan_hash: str) -> None:
    """Stores the whole plan in W&B, as a run of its own."""
    marker = tracking.folder / "wandb" / f".plan-{plan_hash}.json"
    if tracking.mode == "disabled" or _done(marker, tracking.mode):
        return
    config = {"study": plan["study"], "plan_hash": plan_hash, "plan": plan}
    _write(tracking, f"plan-{plan_hash}", None, "plan", {"name": "plan", "config": config, "summary": {}})
    write_json(marker, {"mode": tracking.mode})


def mirror_search(tracking: Tracking, study: str, plan_hash: str, log: dict[str, Any]) -> None:
    """Stores in W&B what the searches did, as a run of its own, over what was stored before."""
    run_id, about = f"search-{plan_hash}", digest(log)
    marker = tracking.folder / "wandb" / f".{run_id}.json"
    if tracking.mode == "disabled" or (_done(marker, tracking.mode) and _of(marker) == about):
        return
    for earlier in (tracking.folder / "wandb").glob(f"offline-run-*-{run_id}"):
        shutil.rmtree(earlier)
    config = {"study": study, "plan_hash": plan_hash, "search": log}
    _write(tracking, run_id, None, "search", {"name": "search", "config": config, "summary": {"state": "finished"}})
    write_json(marker, {"mode": tracking.mode, "of": about})


def _of(marker: Path) -> str:
    content: str = json.loads(marker.read_text(encoding="utf-8")).get("of", "")
    return content


def marker_name(split: record.Split) -> str:
    """The file beside a record that says its mirror is made."""
    return f"mirrored-{split}.json"


def _marker(tracking: Tracking, run_id: str, split: record.Split) -> Path:
    return record.folder(tracking.folder, run_id) / marker_name(split)


def _done(marker: Path, mode: Mode) -> bool:
    return marker.is_file() and json.loads(marker.read_text(encoding="utf-8"))["mode"] == mode


def _drop_partial(tracking: Tracking, run_id: str) -> None:
    """An offline folder of this id without its marker is half a mirror, or a failed attempt that is now replaced."""
    _marker(tracking, run_id, "test").unlink(missing_ok=True)  # first: its part goes with the folders
    for partial in (tracking.folder / "wandb").glob(f"offline-run-*-{run_id}*"):
        shutil.rmtree(partial)
