"""Connects to a running Ray cluster: finds its address, checks it, and sends this project's packages.

Ray is imported only when a connection is made.
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
from trainables.utils.plugins import list_plugin_paths

_PACKAGE_NAMES = ("study", "trainables", "search_spaces", "analysis", "records")
"""Packages of this project that trials import."""
_CONNECT_TIMEOUT_S = 10.0
"""Seconds that the cluster's port has to answer."""
_POLL_INTERVAL_S = 5.0
"""Seconds between two checks of the cluster's port."""
_HEAD_TIMEOUT_S = 35.0
"""Seconds without an answer after which the head node is lost. Ray itself aborts after 60, with a fatal error."""
_ENDPOINT = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


def get_cluster_address(study: Study) -> str | None:
    """Return the address of the study's Ray cluster, or None if Ray is started on this machine.

    RAY_ADDRESS in the environment applies if the study gives no address or `auto`, as in Ray itself. Jobs of a cluster
    have this variable.

    Returns:
        `auto`, HOST:PORT or None.

    Raises:
        UserError: the address has another form, for example the URL of a dashboard.
    """
    source, value = "resources.address", study.resources.address
    if value in (None, "auto") and (variable := os.environ.get("RAY_ADDRESS")):
        source, value = "environment variable RAY_ADDRESS", variable
    if value is None or value == "local":
        return None
    return check_address(source, value, "auto (the cluster of this machine), HOST:PORT (port 6379) or local")


def check_address(
    source: str, value: str, expected: str = "auto (the cluster of this machine) or HOST:PORT (port 6379)"
) -> str:
    """Return the address of a Ray cluster, `auto` or HOST:PORT.

    Args:
        source: option or key that gives it.
        value: the address.
        expected: forms that it may have, for the error message.

    Raises:
        UserError: the address has another form.
    """
    if value != "auto" and not _ENDPOINT.fullmatch(value):
        raise UserError(source, repr(value), expected)
    return value


@contextmanager
def configure_ray_start() -> Iterator[None]:
    """Configure Ray for the block that starts it or connects to a cluster.

    Ray prints no tables, writes no logs of its own, reports no usage, requires no metric from unfinished trials and
    does not handle signals.
    """
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
    """Connect this process to the cluster at an address, unless it is connected already.

    The workers need this project's packages and the plug-ins. A job brings them in its working directory; any other
    command sends them.

    Raises:
        UserError: nothing answers there, the cluster refuses this command, or the study's folders are inside the job's
            temporary working directory.
    """
    if "working_dir" in _read_job_environment():
        _reject_job_relative_paths(study)
    connect(cluster, _build_job_metadata(study), study.folder)


def connect(cluster: str, metadata: dict[str, str], folder: Path, kept: str = "finished runs") -> None:
    """Connect this process to the cluster at an address, unless it is connected already.

    Args:
        cluster: `auto` or HOST:PORT.
        metadata: what Ray's dashboard shows for the job.
        folder: folder with the finished work, for the message if the head node is lost.
        kept: what the finished work is, likewise.

    Raises:
        UserError: nothing answers there, or the cluster refuses this command.
    """
    job = _read_job_environment()
    import ray

    if ray.is_initialized():
        return
    # Ray would try an address where nothing answers for a quarter of an hour.
    if cluster != "auto" and (cause := _get_connection_error(cluster, timeout=_CONNECT_TIMEOUT_S)):
        expected = "HOST:PORT as ray start --head printed it, reachable from here"
        raise UserError(f"cluster {cluster}", f"does not answer ({cause})", expected)
    runtime_env: dict[str, Any] = {} if job.keys() & {"working_dir", "py_modules"} else {"py_modules": _list_modules()}
    with configure_ray_start(), _fail_fast(), _suppress_stderr():
        try:
            ray.init(
                address=cluster,
                runtime_env=runtime_env | {"excludes": ["__pycache__"]} if runtime_env else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                job_config=ray.job_config.JobConfig(metadata=metadata),
            )
        except ray.exceptions.AuthenticationError:
            found = "the cluster requires a token, but none is set"
            raise UserError(f"cluster {cluster}", found, _TOKEN_HINT) from None
        except (ConnectionError, RuntimeError) as error:
            if "could not find any running" in str(error).lower():
                expected = "one that was started with ray start --head, or its HOST:PORT"
                raise UserError(f"cluster {cluster}", "no Ray cluster on this machine", expected) from None
            found = "no Ray cluster of this version, or it refuses this command's token"
            raise UserError(
                f"cluster {cluster}", found, f"the port of ray start --head; if it has a token, {_TOKEN_HINT}"
            ) from None
    head = ray.get_runtime_context().gcs_address
    threading.Thread(target=_exit_on_lost_head, args=(head, ray.is_initialized, folder, kept), daemon=True).start()


def _exit_on_lost_head(head_address: str, is_connected: Callable[[], bool], folder: Path, kept: str) -> None:
    """End the command when the head node is lost, because calls to Ray never return then."""
    last_answer_time = time.monotonic()
    while is_connected():
        time.sleep(_POLL_INTERVAL_S)
        if _get_connection_error(head_address, timeout=_POLL_INTERVAL_S) is None:
            last_answer_time = time.monotonic()
        elif is_connected() and time.monotonic() - last_answer_time > _HEAD_TIMEOUT_S:
            interruption.abort_command(
                f"lost the head node of cluster {head_address}; {kept} kept in {folder}; "
                "rerun the same command to resume, once there is a cluster"
            )


def _build_job_metadata(study: Study) -> dict[str, str]:
    """Return what Ray's dashboard shows for the job: the study and, if it is online, its W&B project.

    The project has the form that `analysis.report` accepts.
    """
    project = "/".join(filter(None, (study.tracking.entity, study.project)))
    wandb_entry = {"wandb": f"wandb:{project}"} if study.tracking.mode == "online" else {}
    return {"job_name": f"study {study.name}", **wandb_entry}


_TOKEN_HINT = "RAY_AUTH_MODE=token with the cluster's token in ~/.ray/auth_token or RAY_AUTH_TOKEN"


def _read_job_environment() -> dict[str, Any]:
    """Return the runtime environment of the Ray job that this command drives. It is empty outside jobs."""
    runtime_env = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}").get("runtime_env") or {}
    return {name: value for name, value in runtime_env.items() if value}


def _reject_job_relative_paths(study: Study) -> None:
    """Refuse folders in a job's working directory: it is a copy on each node, removed after the job."""
    working_folder = Path.cwd()
    for key, folder, expected in (
        ("output.folder", study.folder, "an absolute path on a disk that outlives the job"),
        ("cache.folder", study.cache_folder, "an absolute path on a disk that all nodes share"),
        ("cache.checkpoints", study.checkpoints_url, "an absolute path on a disk that all nodes share, or a URL"),
    ):
        if "://" not in str(folder) and Path(folder).is_relative_to(working_folder):
            found = f"{Path(folder).relative_to(working_folder)} in the job's temporary folder"
            raise UserError(key, found, expected)


def _list_modules() -> list[str]:
    """Return the folders of this project's packages, and the folders or files of the plug-ins."""
    modules = (importlib.import_module(name) for name in _PACKAGE_NAMES)
    return [*(str(Path(str(module.__file__)).parent) for module in modules), *list_plugin_paths()]


def _get_connection_error(cluster: str, timeout: float) -> str | None:
    """Return the reason why nothing answers at HOST:PORT, or None if something does."""
    host, _, port = cluster.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


@contextmanager
def _fail_fast() -> Iterator[None]:
    """Let Ray wait one second for an answer: by default it waits 40 seconds, twenty times."""
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
    """Suppress standard error for the block: Ray's libraries report every attempt there, bypassing Python."""
    sys.stderr.flush()
    saved_stderr = os.dup(2)
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved_stderr, 2)
            os.close(saved_stderr)
