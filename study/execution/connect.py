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

_PACKAGE_NAMES = ("study", "trainables", "search_spaces", "analysis")
"""What a trial imports of this project."""
_CONNECT_TIMEOUT_S = 10.0
"""Seconds for the cluster's port to answer."""
_POLL_INTERVAL_S = 5.0
"""Seconds between two looks at the cluster's port."""
_HEAD_TIMEOUT_S = 35.0
"""Seconds without an answer after which the head node is lost. Ray itself aborts after 60, with a fatal error."""
_ENDPOINT = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


def get_cluster_address(study: Study) -> str | None:
    """Address of the Ray cluster that the study runs on, `auto` or HOST:PORT; None: Ray is started on this machine.

    RAY_ADDRESS in the environment counts where the study says nothing or `auto`, as it does for Ray itself; a job of
    the cluster has it.

    Raises:
        UserError: it is something else, such as the URL of a dashboard.
    """
    source, value = "resources.address", study.resources.address
    if value in (None, "auto") and (variable := os.environ.get("RAY_ADDRESS")):
        source, value = "environment variable RAY_ADDRESS", variable
    if value is None or value == "local":
        return None
    if value != "auto" and not _ENDPOINT.fullmatch(value):
        raise UserError(source, repr(value), "auto (the cluster of this machine), HOST:PORT (port 6379) or local")
    return value


@contextmanager
def configure_ray_start() -> Iterator[None]:
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
    with interruption.keep_signal_handlers():
        yield


def connect_to_cluster(study: Study, cluster: str) -> None:
    """Connects this process to the cluster at an address.

    Workers find this project's packages: a job brings its working directory, any other command sends the packages.

    Raises:
        UserError: nothing answers there, or not to this command; or the study's folders would go with the job.
    """
    job = _read_job_environment()
    if "working_dir" in job:
        _reject_job_relative_paths(study)
    import ray

    if cluster != "auto":
        _check_port(cluster)
    runtime_env: dict[str, Any] = {} if job.keys() & {"working_dir", "py_modules"} else {"py_modules": _find_packages()}
    with configure_ray_start(), _fail_fast(), _suppress_stderr():
        try:
            ray.init(
                address=cluster,
                runtime_env=runtime_env | {"excludes": ["__pycache__"]} if runtime_env else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                job_config=ray.job_config.JobConfig(metadata=_build_job_metadata(study)),
            )
        except ray.exceptions.AuthenticationError:
            found = "the cluster asks for a token, and there is none"
            raise UserError(_format_cluster(cluster), found, _TOKEN_HINT) from None
        except (ConnectionError, RuntimeError) as error:
            if "could not find any running" in str(error).lower():
                expected = "one that was started with ray start --head, or its HOST:PORT"
                raise UserError(_format_cluster(cluster), "no Ray cluster on this machine", expected) from None
            found = "no Ray cluster of this version, or it refuses this command's token"
            raise UserError(
                _format_cluster(cluster), found, f"the port of ray start --head; if it has a token, {_TOKEN_HINT}"
            ) from None
    head = ray.get_runtime_context().gcs_address
    threading.Thread(target=_exit_on_lost_head, args=(head, ray.is_initialized, study.folder), daemon=True).start()


def _exit_on_lost_head(head_address: str, is_connected: Callable[[], bool], folder: Path) -> None:
    """Ends the command when the head node is lost, since nothing that Ray is asked returns then."""
    last_answer_time = time.monotonic()
    while is_connected():
        time.sleep(_POLL_INTERVAL_S)
        if _get_connection_error(head_address, timeout=_POLL_INTERVAL_S) is None:
            last_answer_time = time.monotonic()
        elif is_connected() and time.monotonic() - last_answer_time > _HEAD_TIMEOUT_S:
            safe = f"finished runs are safe in {folder}"
            goes_on = "the same command goes on from there, once there is a cluster"
            interruption.abort_command(f"the head node of cluster {head_address} is lost; {safe}; {goes_on}")


def _build_job_metadata(study: Study) -> dict[str, str]:
    """What Ray's dashboard shows of the job: the study, and where W&B shows it, as `analysis.report` takes it."""
    place = "/".join(filter(None, (study.tracking.entity, study.project)))
    wandb_entry = {"wandb": f"wandb:{place}"} if study.tracking.mode == "online" else {}
    return {"job_name": f"study {study.name}", **wandb_entry}


_TOKEN_HINT = "RAY_AUTH_MODE=token with the cluster's token in ~/.ray/auth_token or RAY_AUTH_TOKEN"


def _format_cluster(cluster: str) -> str:
    return f"cluster {cluster}"


def _read_job_environment() -> dict[str, Any]:
    """The runtime environment of the Ray job that this command is the driver of; empty outside jobs."""
    found = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}").get("runtime_env") or {}
    return {name: value for name, value in found.items() if value}


def _reject_job_relative_paths(study: Study) -> None:
    """A job's working directory is a copy on each node, removed after the job."""
    here = Path.cwd()
    for key, folder in (
        ("output.folder", study.folder),
        ("cache.folder", study.cache),
        ("cache.stages", study.checkpoints_url),
    ):
        if "://" not in str(folder) and Path(folder).is_relative_to(here):
            found = f"{Path(folder).relative_to(here)} in the job's temporary folder"
            raise UserError(key, found, "an absolute path on a disk that all nodes share")


def _find_packages() -> list[str]:
    """Folders of this project's packages."""
    modules = (importlib.import_module(name) for name in _PACKAGE_NAMES)
    return [str(Path(str(module.__file__)).parent) for module in modules]


def _check_port(cluster: str) -> None:
    """A closed or wrong port is known at once, where Ray tries for a quarter of an hour."""
    if cause := _get_connection_error(cluster, timeout=_CONNECT_TIMEOUT_S):
        expected = "HOST:PORT as ray start --head printed it, reachable from here"
        raise UserError(_format_cluster(cluster), f"does not answer ({cause})", expected)


def _get_connection_error(cluster: str, timeout: float) -> str | None:
    """Why nothing answers at HOST:PORT; None where something does."""
    host, _, port = cluster.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


@contextmanager
def _fail_fast() -> Iterator[None]:
    """Ray waits 40 seconds for an answer, and would do so twenty times."""
    name = "RAY_gcs_server_port_wait_time_s"
    previous = os.environ.get(name)
    os.environ[name] = previous or "1"
    try:
        yield
    finally:
        if previous is None:
            del os.environ[name]


@contextmanager
def _suppress_stderr() -> Iterator[None]:
    """Ray's libraries write of every attempt to the standard error, past Python."""
    sys.stderr.flush()
    saved_stderr = os.dup(2)
    with tempfile.TemporaryFile() as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved_stderr, 2)
            os.close(saved_stderr)
