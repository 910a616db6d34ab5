"""The way into a running Ray cluster: which one, what is wrong where there is no way in, what the study takes along.

Loads ray only to join.
"""

import importlib
import json
import logging
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from study.config.loader import Study
from trainables.utils import interruption
from trainables.utils.errors import UserError

_PACKAGES = ("study", "trainables", "search_spaces", "analysis")
"""What a trial imports of this project."""
_PATIENCE = 10.0
"""Seconds for the cluster's port to answer."""
_BEAT = 5.0
"""Seconds between two looks at the cluster's port."""
_SILENCE = 35.0
"""Seconds without an answer after which the head node is lost. Ray itself aborts after 60, with a fatal error."""
_ENDPOINT = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


def address(study: Study) -> str | None:
    """Address of the Ray cluster that the study runs on, `auto` or HOST:PORT; None: Ray is started on this machine.

    RAY_ADDRESS in the environment counts where the study says nothing or `auto`, as it does for Ray itself; a job of
    the cluster has it.

    Raises:
        UserError: it is something else, such as the URL of a dashboard.
    """
    where, found = "resources.address", study.resources.address
    if found in (None, "auto") and (named := os.environ.get("RAY_ADDRESS")):
        where, found = "environment variable RAY_ADDRESS", named
    if found is None or found == "local":
        return None
    if found != "auto" and not _ENDPOINT.fullmatch(found):
        raise UserError(where, repr(found), "auto (the cluster of this machine), HOST:PORT (port 6379) or local")
    return found


@contextmanager
def starting() -> Iterator[None]:
    """Around Ray's start, here or into a cluster: no tables or logs of its own, no usage report, no metric from
    unfinished trials, no answer to signals."""
    os.environ |= {
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with interruption.kept():
        yield


def join(study: Study, cluster: str) -> None:
    """Connects this process to the cluster at an address.

    Workers find this project's packages: a job brings its working directory, any other command sends the packages.

    Raises:
        UserError: nothing answers there, or not to this command; or the study's folders would go with the job.
    """
    job = _job_environment()
    if "working_dir" in job:
        _refuse_temporary(study)
    import ray

    if cluster != "auto":
        _knock(cluster)
    sent: dict[str, Any] = {} if job.keys() & {"working_dir", "py_modules"} else {"py_modules": _packages()}
    with starting(), _one_attempt(), _quiet():
        try:
            ray.init(
                address=cluster,
                runtime_env=sent | {"excludes": ["__pycache__"]} if sent else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                job_config=ray.job_config.JobConfig(metadata=_about(study)),
            )
        except ray.exceptions.AuthenticationError:
            found = "the cluster asks for a token, and there is none"
            raise UserError(_where(cluster), found, _TOKEN) from None
        except (ConnectionError, RuntimeError) as error:
            if "could not find any running" in str(error).lower():
                expected = "one that was started with ray start --head, or its HOST:PORT"
                raise UserError(_where(cluster), "no Ray cluster on this machine", expected) from None
            found = "no Ray cluster of this version, or it refuses this command's token"
            raise UserError(
                _where(cluster), found, f"the port of ray start --head; if it has a token, {_TOKEN}"
            ) from None
    head = ray.get_runtime_context().gcs_address
    threading.Thread(target=_guard, args=(head, ray.is_initialized, study.folder), daemon=True).start()


def _guard(head: str, joined: Callable[[], bool], folder: Path) -> None:
    """Ends the command when the head node is lost, since nothing that Ray is asked returns then."""
    answered = time.monotonic()
    while joined():
        time.sleep(_BEAT)
        if _refusal(head, timeout=_BEAT) is None:
            answered = time.monotonic()
        elif joined() and time.monotonic() - answered > _SILENCE:
            safe = f"finished runs are safe in {folder}"
            goes_on = "the same command goes on from there, once there is a cluster"
            interruption.end(f"the head node of cluster {head} is lost; {safe}; {goes_on}")


def _about(study: Study) -> dict[str, str]:
    """What Ray's dashboard shows of the job: the study, and where W&B shows it, as `analysis.report` takes it."""
    place = "/".join(filter(None, (study.tracking.entity, study.project)))
    shown = {"wandb": f"wandb:{place}"} if study.tracking.mode == "online" else {}
    return {"job_name": f"study {study.name}", **shown}


_TOKEN = "RAY_AUTH_MODE=token with the cluster's token in ~/.ray/auth_token or RAY_AUTH_TOKEN"


def _where(cluster: str) -> str:
    return f"cluster {cluster}"


def _job_environment() -> dict[str, Any]:
    """The runtime environment of the Ray job that this command is the driver of; empty outside jobs."""
    found = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}").get("runtime_env") or {}
    return {name: value for name, value in found.items() if value}


def _refuse_temporary(study: Study) -> None:
    """A job's working directory is a copy on each node, removed after the job."""
    here = Path.cwd()
    for key, folder in (("output.folder", study.folder), ("cache.folder", study.cache), ("cache.stages", study.stages)):
        if "://" not in str(folder) and Path(folder).is_relative_to(here):
            found = f"{Path(folder).relative_to(here)} in the job's temporary folder"
            raise UserError(key, found, "an absolute path on a disk that all nodes share")


def _packages() -> list[str]:
    """Folders of this project's packages."""
    modules = (importlib.import_module(name) for name in _PACKAGES)
    return [str(Path(str(module.__file__)).parent) for module in modules]


def _knock(cluster: str) -> None:
    """A closed or wrong port is known at once, where Ray tries for a quarter of an hour."""
    if cause := _refusal(cluster, timeout=_PATIENCE):
        expected = "HOST:PORT as ray start --head printed it, reachable from here"
        raise UserError(_where(cluster), f"does not answer ({cause})", expected)


def _refusal(cluster: str, timeout: float) -> str | None:
    """Why nothing answers at HOST:PORT; None where something does."""
    host, _, port = cluster.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


@contextmanager
def _one_attempt() -> Iterator[None]:
    """Ray waits 40 seconds for an answer, and would do so twenty times."""
    name = "RAY_gcs_server_port_wait_time_s"
    kept = os.environ.get(name)
    os.environ[name] = kept or "1"
    try:
        yield
    finally:
        if kept is None:
            del os.environ[name]


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's libraries write of every attempt to the standard error, past Python."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
