"""A session of the W&B client. The process's working folder is the study's folder.

Every path that the client writes down is relative to it, and what says who runs the study, or where, is switched off.
"""

import os
import threading
import time
from pathlib import Path
from typing import Any

import wandb

from study.tracking import offline_files
from study.tracking.payload import PROJECT, Content
from study.tracking.settings import PRIVATE, Tracking
from trainables.utils.files import write_json

_CONFIRMATION = 30.0
"""Seconds for the server to have taken in what it was sent."""
_opening = threading.Lock()
"""The client cannot open several runs at once."""
_TIMEOUT = 20.0
"""Seconds for the server to answer when a run is opened."""


def prepare(tracking: Tracking) -> None:
    """Whatever the client stages or caches goes into the study's wandb folder, and it asks and prints nothing."""
    offline_files.FILES.mkdir(exist_ok=True)
    for variable in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        os.environ[variable] = str(offline_files.FILES / ".data")
    if tracking.own:
        write_json(PROJECT, {"project": tracking.project, "entity": tracking.entity}, sealed=True)
    os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}


class Session:
    """A W&B run, open; of one that the server knows it goes on where the server's part ends.

    Raises:
        wandb.errors.Error: the server cannot be reached, or refuses.
    """

    def __init__(self, tracking: Tracking, content: Content) -> None:
        self._online = tracking.mode == "online"
        settings = wandb.Settings(init_timeout=_TIMEOUT, reinit="create_new", **PRIVATE)
        with _opening:
            self._run = wandb.init(
                mode=tracking.mode,
                project=tracking.project,
                entity=tracking.entity,
                dir=".",
                id=content.id,
                name=content.name,
                group=content.group,
                job_type=content.kind,
                config=content.config,
                resume="allow" if self._online else None,
                settings=settings,
            )
        offline_files.make_links_relative(self._folder)
        self.logged = self._run.starting_step
        """Rows that W&B has."""
        self._run.define_metric("instances")
        self._run.define_metric("*", step_metric="instances")

    @property
    def _folder(self) -> Path:
        return Path(self._run.settings.sync_dir)

    @property
    def url(self) -> str | None:
        """Where a server shows the run."""
        return self._run.url if self._online else None

    def log(self, rows: list[dict[str, Any]], start: int = 0) -> None:
        """Sends those rows that W&B lacks; none where others before them are missing.

        Args:
            rows: of the run's curve.
            start: place of the first of them in the curve.
        """
        if start > self.logged:
            return
        for row in rows[self.logged - start :]:
            self._run.log(row)
            self.logged += 1

    def complete(self, content: Content) -> None:
        """Sends the rest, and ends the session when W&B has everything."""
        run, file = self._run, Path(self._run.settings.sync_file)
        run.config.update(content.config, allow_val_change=True)  # type: ignore[no-untyped-call]
        self.log(content.rows)
        for name, path in content.files.items():
            kind = name.partition("-")[0]  # scores or queries
            artifact = wandb.Artifact(name, type=kind)
            lasting = path if self._online else offline_files.keep(path, f"{name}.parquet")
            artifact.add_file(str(lasting), name=f"{kind}.parquet", skip_cache=True, policy="immutable")
            logged = run.log_artifact(artifact)
            if self._online:
                logged.wait()  # else what a server refuses is refused in silence
        stale = {"error"} & set(dict(run.summary)) - content.summary.keys()  # of an attempt that was made good
        for name in stale:
            del run.summary[name]  # type: ignore[no-untyped-call]
        run.summary.update(content.summary)
        run.finish(exit_code=1 if content.failed else 0)
        offline_files.make_links_relative(self._folder)
        if self._online:
            self._confirm(content)
        else:
            offline_files.await_whole(file)

    def _confirm(self, content: Content) -> None:
        """Asks the server, since the client ends a session as if all were well where rows were refused."""
        deadline, run = time.monotonic() + _CONFIRMATION, self._run
        expected = self.logged - 1, "failed" if content.failed else "finished"
        while (found := _known(f"{run.entity}/{run.project}/{run.id}")) != expected:
            if time.monotonic() > deadline:
                raise RuntimeError(f"run {run.id}: last step and state on the server are {found}, not {expected}")
            time.sleep(0.5)


def _known(path: str) -> tuple[int, str]:
    """Last step and state of a run on the server."""
    run = wandb.Api().run(path)
    return run.lastHistoryStep, run.state
