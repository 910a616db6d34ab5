"""A study submitted as a job to a cluster of two nodes. One node is killed in the middle."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.processes import Process, processes, tree
from tests.study.command import comparisons, environment, records, table, weights
from tests.study.suites import command as suite

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
pytest.importorskip("aiohttp_cors", reason="jobs need ray[default]")

ROOT = Path(__file__).parents[2]
ALLOWED = shutil.which("unshare") and subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
HIDE = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"'
"""Starts a program to which a folder is empty and cannot be written."""
RAY = (sys.executable, "-m", "ray.scripts.scripts")
PORTS = ("dashboard-agent-listen",)
HEAD_PORTS = ("dashboard", "ray-client-server")
"""What Ray otherwise expects at fixed numbers, which another cluster of this machine may hold."""
TOKEN = "0123456789abcdef" * 4
STUDY = (
    "quick",
    "name=small",
    "seeds=[1, 2]",
    'variants=["BERT", "LS"]',
    'task.libraries=["networkx"]',
    "task.train_queries=60",
    "task.dev_queries=20",
    "task.test_queries=40",
    "training.instances=2048",  # seconds, in which two runs train at once
    "training.evaluations=1",
    "search.n_configurations.LS=1",
    "cache.checkpoint_interval=0",
)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        number: int = probe.getsockname()[1]
        return number


class Cluster:
    """Nodes on this machine, with ports and folders of their own.

    Args:
        place: of Ray's files; a short path, because it becomes part of sockets' names.
        variables: of the environment, of nodes and of commands.
    """

    def __init__(self, place: Path, **variables: str) -> None:
        kept = {name: value for name, value in environment().items() if not name.startswith(("RAY_", "PYTHONPATH"))}
        self.environment = kept | variables | {"RAY_TMPDIR": str(place), "RAY_USAGE_STATS_ENABLED": "0"}
        self._place, self._roots, self._started = place, dict[str, int](), set[Process]()

    def begin(self, cores: int) -> None:
        """Starts the head."""
        head = self._start("head", "--head", "--port=0", f"--num-cpus={cores}")
        self.address = re.search(r"--address='([\d.:]+)'", head)[1]
        self.dashboard = re.search(r"RAY_API_SERVER_ADDRESS='([^']+)'", head)[1]

    def _start(self, name: str, *arguments: str, hidden: Path | None = None) -> str:
        """Returns what `ray start` printed."""
        log = self._place / f"{name}.log"
        ports = [f"--{use}-port={_free_port()}" for use in (*PORTS, *(HEAD_PORTS if name == "head" else ()))]
        hide = ["unshare", "-rm", "bash", "-c", HIDE, str(hidden)] if hidden and ALLOWED else []
        command = [*hide, *RAY, "start", "--block", f"--temp-dir={self._place / name}", *ports, *arguments]
        with log.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                command, stdout=stream, stderr=stream, cwd=self._place, env=self.environment, start_new_session=True
            )
        self._roots[name] = process.pid
        self._started |= tree(process.pid)
        deadline = time.monotonic() + 120
        while "--block" not in (text := re.sub(r"\x1b\[\d+m", "", log.read_text(encoding="utf-8"))):
            assert process.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
        return text

    def join(self, name: str, hidden: Path) -> None:
        """Adds a node that does not see a folder, where the system can hide one."""
        self._start(name, f"--address={self.address}", "--num-cpus=1", hidden=hidden)

    def kill(self, name: str, only: str = "") -> None:
        """Kills all processes of a node at once, or those of a program."""
        for process in tree(self._roots[name]):
            self._started.add(process)
            if only and not Path(f"/proc/{process.number}/comm").read_text(encoding="utf-8").startswith(only):
                continue
            with suppress(ProcessLookupError):
                os.kill(process.number, signal.SIGKILL)

    def logs(self) -> str:
        """Reads the logs of the tasks' processes on the nodes."""
        paths = self._place.glob("*/session_*/logs/worker-*.out")
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)

    def stop(self) -> None:
        """Ends everything that this cluster has started."""
        for process in list(self._started):
            self._started |= tree(process.number) if process in processes() else set()
        for process in self._started & processes().keys():
            with suppress(ProcessLookupError):
                os.kill(process.number, signal.SIGKILL)


@contextmanager
def cluster(cores: int, **variables: str) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="rs", dir="/tmp", ignore_cleanup_errors=True) as place:
        made = Cluster(Path(place), **variables)
        try:
            made.begin(cores)
            yield made
        finally:
            made.stop()


def study(place: Path, cache: Path) -> tuple[str, ...]:
    return (*STUDY, f"output.folder={place / 'study'}", f"cache.folder={cache}")


def command(on: Cluster, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """A plain command on the head."""
    return subprocess.run(
        [sys.executable, "-m", "study.run", *arguments, "--address", on.address],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=on.environment | changes,
        timeout=400,
        check=False,
    )


def submit(to: Cluster, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A job, as a user submits it; the process that tails its log."""
    job = [*RAY, "job", "submit", "--address", to.dashboard, "--working-dir", str(ROOT), "--"]
    entry = [sys.executable, "-m", "study.run", *arguments, "--address", "auto"]
    with log.open("w", encoding="utf-8") as stream:
        return subprocess.Popen([*job, *entry], stdout=stream, stderr=stream, cwd=log.parent, env=to.environment)


def training(cache: Path) -> int:
    """Runs in training that have a state to go on from."""
    slots = (cache / "stages" / "resume").glob("[!.]*/[0-9]*/stage.json")  # others are being written
    return len({path.parent.parent.name for path in slots})


def test_a_killed_node_changes_nothing_and_the_log_says_what_was_lost_and_recovered(tmp_path):
    """Nor does it that the node sees nothing of the study's folder."""
    cache = tmp_path / "cache"
    (tmp_path / "two").mkdir()
    with cluster(2, RAY_AUTH_MODE="disabled") as one:
        reference = command(one, *study(tmp_path / "one", cache))
        assert reference.returncode == 0, reference.stdout + reference.stderr
        assert "2 trials at once" in reference.stdout
    (cache / "stages").rename(tmp_path / "stages")

    home = tmp_path / "home"  # with a token, as the README has it made
    home.mkdir()
    made = environment(HOME=str(home))
    subprocess.run([*RAY, "get-auth-token", "--generate"], env=made, check=True, capture_output=True, timeout=60)
    with cluster(1, RAY_AUTH_MODE="token", HOME=str(home)) as two:
        two.join("second", hidden=tmp_path / "two")
        refused = command(two, *study(tmp_path / "refused", cache), RAY_AUTH_TOKEN=TOKEN[::-1])
        assert refused.returncode == 2
        assert re.fullmatch(r"study\.run: cluster [\d.:]+: .* refuses .* token; expected .*\n", refused.stderr)

        log = tmp_path / "log"
        job = submit(two, log, *study(tmp_path / "two", cache))
        deadline = time.monotonic() + 300
        while training(cache) < 2:
            if job.poll() is not None and "No available agent" in log.read_text(encoding="utf-8"):
                job = submit(two, log, *study(tmp_path / "two", cache))  # the head's agent starts after the head
            assert job.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.02)
        two.kill("second")
        status = job.wait(timeout=400)
    log_text = log.read_text(encoding="utf-8")
    assert status == 0, log_text
    said = log_text.splitlines()

    lost = next(line for line in said if "lost 1 node" in line)
    run = re.fullmatch(r"lost 1 node \(1 left\); rescheduling from last checkpoint: (.+ seed \d)", lost)
    assert run, lost
    assert f"{run[1]}: resumed on another node" in said
    assert f"{run[1]}: finished on another node after node loss" in said
    assert said.index(lost) < said.index(f"{run[1]}: resumed on another node")
    assert _without_commit(table(tmp_path / "two")) == _without_commit(table(tmp_path / "one"))
    assert weights(tmp_path / "two") == weights(tmp_path / "one")
    assert records(tmp_path / "two").keys() == records(tmp_path / "one").keys()
    assert comparisons(tmp_path / "two" / "study" / "report") == comparisons(tmp_path / "one" / "study" / "report")


def _without_commit(text: str) -> str:
    """Return the tables without the row that a job lacks: its working directory is no repository."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("| commit |"))


def test_a_lost_head_node_ends_the_command_in_one_line_within_a_minute(tmp_path):
    log = tmp_path / "log"
    with cluster(2, RAY_AUTH_MODE="disabled", PYTHONPATH=str(ROOT)) as one:
        asked = [*study(tmp_path, tmp_path / "cache"), "--address", one.address]
        with log.open("w", encoding="utf-8") as stream:
            driver = subprocess.Popen(
                [sys.executable, "-m", "study.run", *asked], stdout=stream, stderr=stream, env=one.environment
            )
        deadline = time.monotonic() + 300
        while training(tmp_path / "cache") < 1:
            assert driver.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.05)
        one.kill("head", only="gcs_server")
        lost = time.monotonic()
        assert driver.wait(timeout=100) == 1
    assert time.monotonic() - lost < 60
    *_, said = log.read_text(encoding="utf-8").splitlines()
    safe = f"finished runs kept in {tmp_path / 'study'}"
    goes_on = "rerun the same command to resume, once there is a cluster"
    assert said == f"study.run: lost the head node of cluster {one.address}; {safe}; {goes_on}"
    assert "rpc_client" not in log.read_text(encoding="utf-8")


def test_a_suite_is_one_pool_on_a_cluster_and_gives_the_same_bytes(tmp_path):
    suites = [tmp_path / "here", tmp_path / "there"]
    for place in suites:
        suite.write(place, suite.TWO_SYSTEMS)
    here = suite.run(suites[0])
    assert here.returncode == 0, here.stdout + here.stderr
    with cluster(2, RAY_AUTH_MODE="disabled", PYTHONPATH=str(ROOT)) as one:
        _, _, _, *arguments = suite.command(suites[1])
        there = command(one, *arguments)
    assert there.returncode == 0, there.stdout + there.stderr
    compared = ("report/comparisons.json", "report/results.csv", "*/runs/*/*scores.parquet")
    assert suite.contents(suites[1], compared) == suite.contents(suites[0], compared)
    assert len(suite.contents(suites[1], compared)) == 2 + 2 * 2 * (1 + 2 * 3)


def test_calibration_takes_the_cluster_that_an_address_names(tmp_path):
    with cluster(2, RAY_AUTH_MODE="disabled", PYTHONPATH=str(ROOT)) as one:
        plan = command(one, *study(tmp_path / "plan", tmp_path / "cache"), "--dry-run", "--estimate-cost", "--json")
        nodes = one.logs()
    assert plan.returncode == 0, plan.stderr
    assert json.loads(plan.stdout)["cost"]["source"] == "a measurement on the cluster"
    assert "measure_throughput" in re.findall(r":task_name:(\w+)", nodes)  # as Ray's workers note
