"""Ray as a study starts it on this machine: what it leaves in the home, and how it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.processes import Process, heed_interruptions, processes, tree
from tests.study.command import environment

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
CODE = """
import time
from trainables.utils import interruption

interruption.start_command("a.command")

def main():
    from study.execution import tuner
    from study.config.loader import load_study

    with tuner.open_session() as folder:
        tuner.start_ray(load_study("quick", ["resources.concurrent=1"]), None, folder)
        from study.execution import node_monitor, nodes

        (node,) = nodes.find_eligible_nodes({"CPU": 1.0})
        print("answers" if node_monitor._is_reachable(node, 1) else "does not answer", flush=True)
        time.sleep(100)

interruption.run_command(main)
"""


@pytest.fixture
def sessions():
    """A folder with a short path, as sockets need it, in which Ray leaves nothing."""
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder) / "new"
        assert list(Path(folder).glob("new/*")) == []


def begin(home: Path, sessions: Path) -> "subprocess.Popen[str]":
    """Starts a process in a home."""
    own = {name: value for name, value in environment().items() if not name.startswith("RAY_")}
    own |= {"HOME": str(home), "PYTHONPATH": str(ROOT), "RAY_TMPDIR": str(sessions)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", CODE]
    return subprocess.Popen(command, text=True, cwd=home.parent, env=own, preexec_fn=heed_interruptions, **pipes)


def alive(those: set[Process]) -> set[Process]:
    """Once they have had the time to go."""
    deadline = time.monotonic() + 20
    while (left := those & processes().keys()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("writable", [True, pytest.param(False, marks=pytest.mark.long)])
def test_it_leaves_nothing_in_the_home_and_ends_with_all_its_processes(writable, sessions, tmp_path):
    """A home that is a file takes nothing, from any user."""
    home = tmp_path / "home"
    home.mkdir() if writable else home.touch()
    with begin(home, sessions) as process:
        assert process.stdout.readline() == "answers\n", process.communicate()[1]
        children = tree(process.pid)
        assert len(children) > 2
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (1, "a.command: interrupted by SIGTERM; rerun the same command\n")
    assert alive(children) == set()
    assert not writable or list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "what"),
    [(signal.SIGTERM, "interrupted by SIGTERM"), pytest.param(signal.SIGINT, "interrupted", marks=pytest.mark.long)],
)
def test_a_signal_while_it_starts_is_no_crash(number, what, sessions, tmp_path):
    (tmp_path / "home").mkdir()
    with begin(tmp_path / "home", sessions) as process:
        deadline = time.monotonic() + 60
        while len(children := tree(process.pid)) < 2:  # the first of Ray's processes is there
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (1, f"a.command: {what}; rerun the same command\n")
    assert alive(children) == set()
