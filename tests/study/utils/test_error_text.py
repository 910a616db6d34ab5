"""Text of a failure in a record: the reason, and nothing about the machine."""

import errno
import os
import platform
from pathlib import Path

import pytest

from study.execution.nodes import register_hosts
from study.utils.error_text import (
    describe_crash,
    format_redacted_traceback,
    is_machine_fault,
    redact,
    summarize_error,
    summarize_server_error,
)
from tests.study.command import called
from trainables.utils.errors import is_disk_full
from trainables.worker.crash_report import CrashReport
from trainables.worker.limits import StepLimits

NONE = StepLimits()
LIMITS = StepLimits(minutes=2, memory=4 * 10**9)
DIED = (
    "The actor died unexpectedly before finishing this task.\n\tpid: 1\n\tip: 192.0.2.2\nWorker exit type: SYSTEM_ERROR"
)
LOW = (
    "Failure # 1 (occurred at 2026-11-21_22-35-24)\n1 worker(s) were killed due to the node running low on "
    "memory. Memory on the node (IP: 192.0.2.2, ID: d2) was 22.4GB used / 23.54GB limit (0.951)\nOOM kill reason"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no file /home/jane/data/x.tsv here", "no file x.tsv here"),
        (f"'{Path.home()}/secret/x.json'", "'x.json'"),
        ("connect to 10.1.2.3:6379 failed", "connect to (address) failed"),
        (f"lost {platform.node()}", "lost (host)"),
        ("s3://bucket/records is not there", "s3://bucket/records is not there"),
        ("1/3 of all and/or none", "1/3 of all and/or none"),
    ],
)
def test_what_belongs_to_the_machine_is_left_out(text, expected):
    assert redact(text) == expected


def test_other_nodes_of_the_cluster_are_left_out_once_they_are_known(monkeypatch):
    monkeypatch.setattr("study.utils.error_text.HOSTS", set())
    text = "lost gpu-07.lab.example at gpu-07 (GPU-07), not gpu-071 or login.lab; also xnode"
    assert redact(text) == text
    node = {"NodeName": "gpu-07.lab.example", "NodeManagerAddress": "192.0.2.7"}
    register_hosts([node, {"NodeManagerHostname": "login"}])
    assert redact(text) == "lost (host) at (host) ((host)), not gpu-071 or (host).lab; also xnode"


@pytest.mark.long  # it starts Ray
def test_joining_a_cluster_makes_its_nodes_known():
    code = (
        "import ray; from study.execution import nodes; from study.utils.error_text import redact\n"
        "ray.init('local', num_cpus=1, include_dashboard=False, log_to_driver=False, _node_name='gpu-07.lab')\n"
        "text = 'lost gpu-07.lab, 192.0.2.7 and ' + ray.nodes()[0]['NodeManagerHostname']\n"
        "nodes.find_eligible_nodes({'CPU': 1.0}); ray.shutdown(); print(redact(text))"
    )
    done = called(Path.cwd(), "-c", code)
    assert done.stdout.splitlines()[-1:] == ["lost (host), (address) and (host)"], done.stderr


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            'Failed to get status: returned error 401: {"data":null,"errors":[{"message":"user is not logged in"}]}',
            "the server does not accept the API key (401); set WANDB_API_KEY, or run wandb login",
        ),
        (
            'returned error 403: {"errors":[{"message":"\\"x\\" denied","path":["x"]}],"data":{"a":null}}\nmore',
            'RuntimeError: returned error 403: \\"x\\" denied: more',
        ),
        ('returned error 500: {"data":null}', "RuntimeError: returned error 500: no reason given"),
        ("connection refused", "RuntimeError: connection refused"),
    ],
)
def test_what_a_server_says_is_told_without_its_form(told, expected):
    assert summarize_server_error(RuntimeError(told)) == expected


def test_a_traceback_names_modules_and_no_folders():
    with pytest.raises(OSError, match="x") as caught:
        raise OSError(errno.ENOENT, "x", f"{Path.home()}/se{'cret'}/file")
    text = "".join(format_redacted_traceback(caught.value))
    assert 'File "tests/study/utils/test_error_text.py"' in text
    assert str(Path.home()) + "/" not in text
    assert "secret" not in text


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 7.45 GiB for an array"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"
        ),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_memory_is_named_as_the_cause_only_under_a_limit(error):
    assert summarize_error(error, LIMITS).startswith(
        f"more than trial.memory = 4 GB was needed: {type(error).__name__}"
    )
    assert "trial.memory" not in summarize_error(error, NONE)
    assert "trial.memory" not in summarize_error(ValueError("no such thing"), LIMITS)


def test_a_cause_is_one_line():
    assert summarize_error(ValueError("one\ntwo"), NONE) == "ValueError: one"
    assert summarize_error(KeyError(), NONE) == "KeyError"


def test_how_a_process_died():
    hung, crashed = CrashReport(None, "torch/_ops.py:5 in call"), CrashReport("Segmentation fault", "numpy/x.py:1 in f")
    expected = "a step took longer than trial.minutes = 2; it hung in torch/_ops.py:5 in call"
    assert describe_crash(DIED, hung, LIMITS) == expected
    assert (
        describe_crash(DIED, crashed, LIMITS) == "the trial's process crashed (Segmentation fault) in numpy/x.py:1 in f"
    )
    low = "Ray ended the trial's process because its node ran low on memory: 22.4GB of 23.54GB used"
    assert describe_crash(LOW, None, NONE) == low
    killed = "the trial's process was killed, as the system does when memory runs out (signal 9)"
    assert describe_crash(DIED, None, NONE).startswith(f"{killed}; set trial.memory ")
    assert describe_crash(DIED, None, LIMITS) == f"{killed}; its limit was trial.memory = 4 GB"
    assert describe_crash("The actor died because its node has died.", None, NONE) == "the trial's node died"


class ForeignError(Exception):
    """An error of a library in another language."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), True),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), True),
        (ForeignError("I/O error: No space left on device (os error 28)"), True),
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT)), False),
        (ValueError("no space"), False),
    ],
)
def test_a_full_disk_is_known_by_every_error_that_says_it(error, expected):
    assert is_disk_full(error) == expected


@pytest.mark.parametrize(
    ("error", "unlimited", "limited"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "/data/allocate/x"), True, True),
        (OSError(errno.ENOSPC, "cannot allocate space"), True, True),
        (ForeignError("could not allocate: No space left on device (os error 28)"), True, True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True, False),
        (MemoryError(), True, False),
        (ValueError("boom"), False, False),
        (FloatingPointError("not finite"), False, False),
    ],
)
def test_a_word_in_a_path_does_not_tell_the_kind_of_a_fault(error, unlimited, limited):
    assert (is_machine_fault(error, NONE), is_machine_fault(error, LIMITS)) == (unlimited, limited)
