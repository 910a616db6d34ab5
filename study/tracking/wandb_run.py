"""Session of the W&B client. The working directory of the process is the study's folder.

Every path that the client writes is relative to it. Everything that shows who runs the study, or where, is switched
off.
"""

import threading
import time
from pathlib import Path
from typing import Any

import wandb

from study.tracking import offline_files
from study.tracking.payload import PROJECT_FILE, RunPayload
from study.tracking.tracking_settings import PRIVATE_SETTINGS, Tracking, prepare_client_folder
from trainables.utils.files import write_json

_CONFIRM_TIMEOUT_S = 30.0
"""Seconds that the server has to process what it received."""
_init_lock = threading.Lock()
"""The client cannot open several runs at once."""
_INIT_TIMEOUT_S = 20.0
"""Seconds that the server has to answer when a run is opened."""


def prepare_client(tracking: Tracking) -> None:
    """Make the client write all files to the study's wandb folder, and note the project if it is the study's own."""
    prepare_client_folder(offline_files.WANDB_FOLDER)
    if tracking.own:
        content = tracking.model_dump(include={"project", "entity", "group"})
        write_json(PROJECT_FILE, content, with_checksum=True)


class WandbRun:
    """Open W&B run. A run that the server already has is continued after the server's last row.

    Args:
        tracking: destination.
        payload: content of the run. Its rows and files are sent by `finish`.

    Raises:
        wandb.errors.Error: the server cannot be reached, or refuses the run.
    """

    def __init__(self, tracking: Tracking, payload: RunPayload) -> None:
        self._online = tracking.mode == "online"
        settings = wandb.Settings(init_timeout=_INIT_TIMEOUT_S, reinit="create_new", **PRIVATE_SETTINGS)
        with _init_lock:
            self._run = wandb.init(
                mode=tracking.mode,
                project=tracking.project,
                entity=tracking.entity,
                dir=".",
                id=payload.id,
                name=payload.name,
                group=payload.group and "/".join(filter(None, (tracking.group, payload.group))),
                job_type=payload.job_type,
                config=payload.config,
                resume="allow" if self._online else None,
                settings=settings,
            )
        offline_files.make_links_relative(self._folder)
        self.n_logged = self._run.starting_step
        """Number of rows that W&B has."""
        self._run.define_metric("instances")
        self._run.define_metric("*", step_metric="instances")

    @property
    def _folder(self) -> Path:
        return Path(self._run.settings.sync_dir)

    @property
    def url(self) -> str | None:
        """URL of the run on the server. None offline."""
        return self._run.url if self._online else None

    def log_rows(self, rows: list[dict[str, Any]], start: int = 0) -> None:
        """Send the rows from index `start` of the curve that W&B does not have; none if earlier rows are missing."""
        if start > self.n_logged:
            return
        for row in rows[self.n_logged - start :]:
            self._run.log(row)
            self.n_logged += 1

    def finish(self, payload: RunPayload) -> None:
        """Send the rest, and end the session when W&B has everything.

        Raises:
            RuntimeError: the server did not store all rows.
            TimeoutError: the offline files were not written in time.
        """
        run, file = self._run, Path(self._run.settings.sync_file)
        run.config.update(payload.config, allow_val_change=True)  # type: ignore[no-untyped-call]
        self.log_rows(payload.rows)
        for name, path in payload.files.items():
            kind = name.partition("-")[0]  # "scores" or "queries"
            artifact = wandb.Artifact(name, type=kind)
            artifact_path = path if self._online else offline_files.link_artifact_file(path, f"{name}.parquet")
            artifact.add_file(str(artifact_path), name=f"{kind}.parquet", skip_cache=True, policy="immutable")
            logged = run.log_artifact(artifact)
            if self._online:
                logged.wait()  # otherwise a refusal by the server would go unnoticed
        stale = {"error"} & set(dict(run.summary)) - payload.summary.keys()  # left by an earlier failed attempt
        for name in stale:
            del run.summary[name]  # type: ignore[no-untyped-call]
        run.summary.update(payload.summary)
        run.finish(exit_code=1 if payload.is_failed else 0)
        offline_files.make_links_relative(self._folder)
        if self._online:
            self._wait_for_server(payload)
        else:
            offline_files.wait_until_written(file)

    def _wait_for_server(self, payload: RunPayload) -> None:
        """Wait until the server has everything: the client reports success even if the server rejected rows."""
        deadline, run = time.monotonic() + _CONFIRM_TIMEOUT_S, self._run
        expected = self.n_logged - 1, "failed" if payload.is_failed else "finished"
        while (actual := _fetch_step_and_state(f"{run.entity}/{run.project}/{run.id}")) != expected:
            if time.monotonic() > deadline:
                raise RuntimeError(f"run {run.id}: last step and state on the server are {actual}, not {expected}")
            time.sleep(0.5)


def _fetch_step_and_state(path: str) -> tuple[int, str]:
    run = wandb.Api().run(path)
    return run.lastHistoryStep, run.state
