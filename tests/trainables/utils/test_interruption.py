"""Commands that are asked to end by a signal: real processes that leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.study.command import environment

ROOT = Path(__file__).parents[3]
COMMANDS = ("study.run", "study.sync", "study.dashboard", "analysis.report", "analysis.compare", "analysis.sample_size")
SIGNALS = {"SIGINT": "interrupted", "SIGTERM": "interrupted by SIGTERM", "SIGHUP": "interrupted by SIGHUP"}
SCRIPT = """
import subprocess, sys, threading, time
from trainables.utils import interruption

interruption.start_command("a.command")

def main():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
    ready = lambda: print(child.pid, flush=True)
    {body}

interruption._GRACE = {grace}
interruption.run_command(main)
"""
BUSY = """
    import pathlib
    pathlib.Path("busy").mkdir()
    interruption.remove_when_killed(pathlib.Path("busy"))
    writes = "import itertools, pathlib; [pathlib.Path('busy', str(n)).touch() for n in itertools.count()]"
    subprocess.Popen([sys.executable, "-c", writes])
    while not any(pathlib.Path("busy").iterdir()):
        time.sleep(.01)
    ready()
    time.sleep(100)
"""
STUBBORN = """
    while True:
        try:
            ready()
            time.sleep(100)
        except KeyboardInterrupt:
            print("swallowed", flush=True)
"""


class Started:
    """A process with signals as in a terminal: a shell's background jobs, and all that they start, ignore some."""

    def __init__(self, folder: Path, *arguments: str, ignored: tuple[str, ...] = (), path: Path = ROOT) -> None:
        def reset() -> None:
            for name in SIGNALS:
                signal.signal(getattr(signal, name), signal.SIG_IGN if name in ignored else signal.SIG_DFL)

        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment(PYTHONPATH=f"{path}{os.pathsep}{ROOT}"),
            preexec_fn=reset,
        )
        self.output: IO[str] = self._process.stdout

    def send(self, name: str) -> None:
        self._process.send_signal(getattr(signal, name))

    def ended(self) -> tuple[int, str]:
        """Its status and what it said of its end."""
        _, told = self._process.communicate(timeout=30)
        return self._process.returncode, told

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def processes() -> Iterator[list[Started]]:
    started: list[Started] = []
    yield started
    for process in started:
        process.kill()


def script(tmp_path: Path, body: str, grace: float = 60.0, ignored: tuple[str, ...] = ()) -> tuple[Started, int]:
    """The process of a command, and the number of its child, which would not hear of its signals."""
    process = Started(tmp_path, "-c", SCRIPT.format(body=body, grace=grace), ignored=ignored)
    return process, int(process.output.readline())


def alive(process: int) -> bool:
    """Not a zombie either."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(process: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(process)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_still_loading_libraries_says_that_nothing_was_started(
    command: str, tmp_path: Path, processes: list[Started]
) -> None:
    """Its first library is one that takes for ever."""
    for library in ("numpy", "pydantic"):
        (tmp_path / f"{library}.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(100)\n", "utf-8")
    name = tuple(SIGNALS)[COMMANDS.index(command) % len(SIGNALS)]
    process = Started(tmp_path, "-m", command, path=tmp_path)
    processes.append(process)
    assert process.output.readline() == "loading\n"
    process.send(name)
    assert process.ended() == (1, f"{command}: {SIGNALS[name]}; nothing was started\n")


@pytest.mark.parametrize("name", SIGNALS)
def test_a_command_ends_in_one_line_and_with_its_children(name: str, tmp_path: Path, processes: list[Started]) -> None:
    process, child = script(tmp_path, "ready(); time.sleep(100)")
    processes.append(process)
    process.send(name)
    assert process.ended() == (1, f"a.command: {SIGNALS[name]}; rerun the same command\n")
    assert gone(child)


def test_a_folder_is_removed_once_nobody_writes_to_it(tmp_path: Path, processes: list[Started]) -> None:
    process, _ = script(tmp_path, BUSY)
    processes.append(process)
    process.send("SIGTERM")
    assert process.ended()[0] == 1
    assert list(tmp_path.iterdir()) == []


def test_an_exception_that_a_library_makes_of_it_is_the_interruption_all_the_same(
    tmp_path: Path, processes: list[Started]
) -> None:
    body = "\n    try: ready(); time.sleep(100)\n    except KeyboardInterrupt: raise ImportError('half a library')"
    process, child = script(tmp_path, body)
    processes.append(process)
    process.send("SIGINT")
    assert process.ended() == (1, "a.command: interrupted; rerun the same command\n")
    assert gone(child)


@pytest.mark.parametrize("again", [True, False])
def test_a_command_that_does_not_unwind_ends_at_a_second_signal_or_after_a_while(
    again: bool, tmp_path: Path, processes: list[Started]
) -> None:
    process, child = script(tmp_path, STUBBORN, grace=60.0 if again else 0.5)
    processes.append(process)
    process.send("SIGTERM")
    if again:
        assert process.output.readline() == "swallowed\n"
        process.send("SIGINT")
    line = "a.command: interrupted by SIGTERM; finished work is kept; rerun the same command\n"
    assert process.ended() == (1, line)
    assert gone(child)


def test_what_is_ignored_stays_ignored(tmp_path: Path, processes: list[Started]) -> None:
    """A signal is ignored under nohup."""
    process, _ = script(tmp_path, "ready(); time.sleep(100)", ignored=("SIGHUP",))
    processes.append(process)
    process.send("SIGHUP")
    process.send("SIGTERM")
    assert process.ended() == (1, "a.command: interrupted by SIGTERM; rerun the same command\n")


POOL = """
    import os, signal
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    from trainables.utils.system import block_sigint, exit_with_parent

    with ProcessPoolExecutor(2, get_context("spawn"), exit_with_parent) as pool:
        with block_sigint():
            found = pool.map(abs, (-1, -2))
        until = time.monotonic() + 1
        while time.monotonic() < until:
            for worker in interruption._list_descendants():
                if worker != child.pid:
                    os.kill(worker, signal.SIGINT)
            time.sleep(0.01)
        print(*found, flush=True)
    child.kill()
    return 0
"""


def test_workers_of_a_command_do_not_answer_ctrl_c(tmp_path: Path, processes: list[Started]) -> None:
    """Not even before they have begun: a terminal sends it to all of them."""
    process = Started(tmp_path, "-c", SCRIPT.format(body=POOL, grace=60.0))
    processes.append(process)
    assert process.output.readline() == "1 2\n"
    assert process.ended() == (0, "")


def test_a_command_that_is_left_alone_ends_with_its_status(tmp_path: Path, processes: list[Started]) -> None:
    process, child = script(tmp_path, "ready(); child.kill(); child.wait(); return 7")
    processes.append(process)
    assert process.ended() == (7, "")
    assert gone(child)


@pytest.mark.parametrize("command", COMMANDS)
def test_without_its_packages_a_command_says_so_in_one_line(command: str) -> None:
    """-S leaves out the installed packages."""
    result = subprocess.run([sys.executable, "-S", "-m", command, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    install = 'pip install ".[train]"' if command.startswith("study.") else "pip install ."
    assert result.stderr == (
        f"{command}: {sys.executable} has no package pydantic; expected the environment of the project: "
        f"source .venv/bin/activate, or {install}\n"
    )
