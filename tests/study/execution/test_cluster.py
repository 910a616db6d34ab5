"""A study chooses nodes of a cluster and connects to it; no Ray is started here."""

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.config.loader import load_study
from study.execution import connect as joining
from study.execution import nodes, slots
from study.execution.node_monitor import NodeMonitor
from study.folder.run_name import format_run_name
from tests.study.command import called
from trainables.specs.run_spec import Environment
from trainables.utils.errors import UserError


def node(name: str = "a", **resources: float) -> dict[str, Any]:
    return {"NodeID": name, "Alive": True, "Resources": resources}


ENVIRONMENT = Environment(device="cpu", instruction_set="x86_64-any", torch="1", transformers="1", numpy="1")


@given(
    st.lists(st.integers(0, 64), min_size=1, max_size=5),
    st.integers(1, 8),
    st.lists(st.integers(0, 8), min_size=5, max_size=5),
    st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0]),
)
def test_every_trial_fits_into_one_node_and_one_gpu(cores, threads, gpus, share):
    """The oracle puts trials into nodes and GPUs one after the other."""
    wanted = {"CPU": float(threads)} | ({"GPU": share} if share else {})
    cluster = [node(CPU=float(c), GPU=float(g)) for c, g in zip(cores, gpus, strict=False)]
    total = 0
    for found in cluster:
        cores_left, gpus_left = found["Resources"]["CPU"], [10000] * int(found["Resources"]["GPU"])
        while cores_left >= threads and (not share or any(left >= round(share * 10000) for left in gpus_left)):
            cores_left -= threads
            total += 1
            if share:
                gpus_left[gpus_left.index(max(gpus_left))] -= round(share * 10000)
    assert slots.compute_capacity(wanted, cluster) == max(1, total)


def test_as_many_trials_fit_on_a_node_as_decimals_say():
    assert slots.count_trials_per_node(node(GPU=0.3), {"GPU": 0.1}) == 3  # which 0.3 / 0.1 is not


def test_nodes_that_differ_are_an_error_in_one_line_that_names_the_kinds():
    other = ENVIRONMENT.model_copy(update={"instruction_set": "x86_64-amx"})
    nodes._reject_heterogeneous([ENVIRONMENT, ENVIRONMENT])
    with pytest.raises(UserError) as caught:
        nodes._reject_heterogeneous([ENVIRONMENT, other, other])
    text = str(caught.value)
    assert text.startswith("resources: ")
    assert "2 with instruction_set x86_64-amx; 1 with instruction_set x86_64-any; expected" in text
    assert "torch" not in text


def test_a_folder_that_a_node_does_not_see_is_an_error():
    seen = nodes.NodeInfo(ENVIRONMENT, load_study("quick").training, [])
    nodes._reject_unshared_folders([seen, seen])
    with pytest.raises(UserError, match=r"cache\.folder: 1 of the 2 nodes .* do not see it; expected .* share"):
        nodes._reject_unshared_folders([seen, seen._replace(unseen_folders=["cache.folder"])])


@pytest.mark.parametrize(
    ("given", "variable", "expected"),
    [
        (None, None, None),
        (None, "", None),
        (None, "10.0.0.1:6379", "10.0.0.1:6379"),
        ("auto", None, "auto"),
        ("auto", "10.0.0.1:6379", "10.0.0.1:6379"),
        ("head:6380", "10.0.0.1:6379", "head:6380"),
        ("local", "10.0.0.1:6379", None),
        (None, "local", None),
    ],
)
def test_the_address_is_the_studys_and_else_the_environments(given, variable, expected, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    assert joining.get_cluster_address(load_study("quick", [f"resources.address={given or 'none'}"])) == expected


def test_an_address_of_another_kind_is_an_error(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    with pytest.raises(UserError, match=r"^environment variable RAY_ADDRESS: 'http://.*; expected auto"):
        joining.get_cluster_address(load_study("quick"))
    with pytest.raises(UserError, match=r"^resources\.address: 'ray://head:10001'; expected auto"):
        joining.get_cluster_address(load_study("quick", ["resources.address=ray://head:10001"]))


def test_a_closed_port_is_known_at_once():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(UserError, match=rf"^cluster {place}: does not answer \(.*\); expected HOST:PORT"):
            joining.connect_to_cluster(load_study("quick"), place)


def test_a_head_node_that_answers_no_more_ends_the_command(tmp_path, monkeypatch):
    """Not one that misses a knock; with real Ray: tests/faults/test_cluster.py."""
    said: list[str] = []
    monkeypatch.setattr(joining, "_POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(joining, "_HEAD_TIMEOUT_S", 0.5)
    monkeypatch.setattr("trainables.utils.interruption.abort_command", said.append)
    head = socket.create_server(("127.0.0.1", 0))
    port = head.getsockname()[1]
    asked = (f"127.0.0.1:{port}", lambda: not said, tmp_path, "finished runs")
    guard = threading.Thread(target=joining._exit_on_lost_head, args=asked, daemon=True)
    guard.start()
    time.sleep(0.8)
    head.close()
    time.sleep(0.2)
    with socket.create_server(("127.0.0.1", port)):
        time.sleep(0.8)
        assert said == []
    guard.join(10)
    safe = f"finished runs kept in {tmp_path}; rerun the same command to resume, once there is a cluster"
    assert said == [f"lost the head node of cluster 127.0.0.1:{port}; {safe}"]


def test_nothing_is_set_in_the_environment_before_ray_is_started():
    code = (
        "import os; before = dict(os.environ); import study.execution.connect, study.execution.tuner\n"
        "changed = {name for name, _ in before.items() ^ os.environ.items()}\n"
        "print(sorted(name for name in changed if name.startswith(('RAY_', 'TUNE_'))))"
    )
    found = called(Path(), "-c", code)
    assert found.stdout == "[]\n", found.stderr


@pytest.mark.parametrize("key", ["output.folder", "cache.folder", "cache.checkpoints"])
def test_folders_that_go_with_the_job_are_an_error(key, tmp_path, monkeypatch):
    (tmp_path / "job").mkdir()
    monkeypatch.chdir(tmp_path / "job")
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps({"runtime_env": {"working_dir": "gcs://a.zip"}}))
    good = {name: tmp_path / "disk" / name for name in ("output.folder", "cache.folder", "cache.checkpoints")}
    joining._reject_job_relative_paths(load_study("quick", [f"{name}={place}" for name, place in good.items()]))
    settings = [f"{name}={'here' if name == key else place}" for name, place in good.items()]
    with pytest.raises(UserError, match=rf"{key}: here in the job's temporary folder; expected an absolute path"):
        joining.connect_to_cluster(load_study("quick", settings), "auto")


class FakeTrial:
    """A trial as Watch sees it."""

    def __init__(self, name: str, seed: int) -> None:
        self.trial_id = name
        self.config = {"labels": json.dumps({"variant": "LS", "epsilon": 0.2, "switch": None, "seed": seed})}
        self.temporary_state = SimpleNamespace(ray_actor=SimpleNamespace())
        self.temporary_state.ray_actor.__ray_call__ = SimpleNamespace(remote=lambda asked: None)


def capacity(watch: NodeMonitor) -> int:
    return slots.compute_capacity({"CPU": 1.0}, watch.living_nodes)


def test_a_lost_node_is_told_once_and_not_counted_against_its_runs(monkeypatch):
    cluster = {name: node(name, CPU=2.0) for name in "ab"}
    said: list[str] = []
    rooms: list[int] = []
    monkeypatch.setattr(nodes, "find_eligible_nodes", lambda wanted: list(cluster.values()))
    monkeypatch.setattr("study.execution.node_monitor._is_reachable", lambda found, times: found["NodeID"] == "a")
    monkeypatch.setattr("study.execution.node_monitor._POLL_INTERVAL_S", 0.0)
    watch = NodeMonitor({"CPU": 1.0}, said.append, lambda: rooms.append(capacity(watch)))
    lost, own = FakeTrial("t1", 1), FakeTrial("t2", 2)
    places = {"t1": "b", "t2": "a"}
    monkeypatch.setattr(watch, "_find_node", lambda trial: places[trial.trial_id])
    assert watch.is_node_lost(lost)
    assert not watch.is_node_lost(own)
    watch.on_step_begin(0, [])  # the cluster has not missed it yet
    assert said == ["lost 1 node (1 left); rescheduling from last checkpoint: LS epsilon 0.2 seed 1"]
    assert rooms == [2]
    del cluster["b"]
    watch.on_step_begin(0, [])
    watch.on_trial_complete(0, [], own)
    assert len(said) == 1
    watch.on_trial_complete(0, [], lost)
    assert said[1:] == ["LS epsilon 0.2 seed 1: finished on another node after node loss"]
    cluster["c"] = node("c", CPU=3.0)
    watch.on_step_begin(0, [])
    assert said[2:] == ["1 node joined (2 in total)"]
    assert rooms == [2, 5]


def test_a_run_goes_on_only_after_its_loss_is_told(monkeypatch):
    """However soon it starts again: what else was on the node is waited for."""
    cluster = {name: node(name, CPU=2.0) for name in "ab"}
    said: list[str] = []
    monkeypatch.setattr(nodes, "find_eligible_nodes", lambda wanted: list(cluster.values()))
    monkeypatch.setattr(
        "study.execution.node_monitor._is_reachable", lambda found, times: found is not None and found["NodeID"] == "a"
    )
    watch = NodeMonitor({"CPU": 1.0}, said.append, lambda: None)
    trials = [FakeTrial("t1", 1), FakeTrial("t2", 2)]
    monkeypatch.setattr(watch, "_find_node", lambda trial: "b")
    assert watch.is_node_lost(trials[0])
    watch.on_trial_start(0, [], trials[0])
    assert watch.is_node_lost(trials[1])
    assert said == []
    monkeypatch.setattr("study.execution.node_monitor._POLL_INTERVAL_S", 0.0)
    watch.on_step_begin(0, [])
    both = "LS epsilon 0.2 seed 1; LS epsilon 0.2 seed 2"
    assert said == [
        f"lost 1 node (1 left); rescheduling from last checkpoint: {both}",
        "LS epsilon 0.2 seed 1: resumed on another node",
    ]
    watch.on_trial_start(0, [], trials[1])
    assert said[2:] == ["LS epsilon 0.2 seed 2: resumed on another node"]
    assert watch.is_node_lost(trials[0])
    watch.on_trial_start(0, [], trials[0])
    watch.on_trial_complete(0, [], trials[0])
    assert [line.split("seed 1: ")[1].split(" ")[0] for line in said[3:]] == ["resumed", "finished"]


class Port:
    """A port at which a node answers, unless it misses a knock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.misses, self.knocks = 0, 0
        monkeypatch.setattr("study.execution.node_monitor._RETRY_INTERVAL_S", 0.0)
        monkeypatch.setattr("study.execution.node_monitor._POLL_INTERVAL_S", 0.0)
        monkeypatch.setattr("study.execution.node_monitor._RECHECK_INTERVAL_S", 0.0)
        monkeypatch.setattr("study.execution.node_monitor.socket.create_connection", self._connect)

    def _connect(self, place: tuple[str, int], timeout: float) -> SimpleNamespace:
        self.knocks += place[0] == "b"
        if place[0] == "b" and self.misses:
            self.misses -= 1
            raise TimeoutError
        return SimpleNamespace(close=lambda: None)


def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[NodeMonitor, FakeTrial, list[str], list[int]]:
    """The watch of two nodes, a trial on node b, what is said and what room there is."""
    cluster = [node(n, CPU=2.0) | {"NodeManagerAddress": n, "NodeManagerPort": 1} for n in "ab"]
    said, rooms = list[str](), list[int]()
    monkeypatch.setattr(nodes, "find_eligible_nodes", lambda wanted: cluster)
    watch = NodeMonitor({"CPU": 1.0}, said.append, lambda: rooms.append(capacity(watch)))
    monkeypatch.setattr(watch, "_find_node", lambda trial: "b")
    return watch, FakeTrial("t1", 1), said, rooms


@pytest.mark.parametrize("misses", [1, 2])
def test_a_node_that_misses_a_knock_or_two_is_not_lost(misses, monkeypatch):
    port, (watch, trial, said, rooms) = Port(monkeypatch), watched(monkeypatch)
    port.misses = misses
    assert not watch.is_node_lost(trial)
    watch.on_step_begin(0, [])
    assert (port.knocks, said, rooms) == (misses + 1, [], [])


def test_a_lost_node_that_answers_again_counts_again(monkeypatch):
    port, (watch, trial, said, rooms) = Port(monkeypatch), watched(monkeypatch)
    port.misses = 3
    assert watch.is_node_lost(trial)
    port.misses = 1
    watch.on_step_begin(0, [])
    assert rooms == [2]
    watch.on_step_begin(0, [])
    assert rooms == [2, 4]
    assert said[1:] == ["1 node joined (2 in total)"]
    port.misses = 1
    assert not watch.is_node_lost(trial)
    port.misses = 3
    assert watch.is_node_lost(trial)
    knocks, port.misses = port.knocks, 9
    assert watch.is_node_lost(trial)
    assert port.knocks == knocks + 1  # what is known to be lost is not waited for


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes no connection: its queue is full, so that the system drops what comes."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse what a full queue does not take")
def test_fifty_nodes_that_are_lost_together_are_found_in_the_time_of_one(monkeypatch):
    """A connection to a lost node is not refused, it is not answered; here none takes less than half a second."""
    monkeypatch.setattr("study.execution.node_monitor._CONNECT_TIMEOUT_S", 0.5)
    monkeypatch.setattr("study.execution.node_monitor._CONNECT_ATTEMPTS", 1)
    monkeypatch.setattr("study.execution.node_monitor._POLL_INTERVAL_S", 0.0)
    monkeypatch.setattr("study.execution.node_monitor._RECHECK_INTERVAL_S", 5.0)
    said, names = list[str](), [f"n{number}" for number in range(50)]
    with silent_port() as port, socket.create_server(("127.0.0.1", 0)) as answers:
        places = {**dict.fromkeys(names, port), "left": answers.getsockname()[1]}
        cluster = [
            node(name, CPU=1.0) | {"NodeManagerAddress": "127.0.0.1", "NodeManagerPort": own}
            for name, own in places.items()
        ]
        monkeypatch.setattr(nodes, "find_eligible_nodes", lambda wanted: cluster)
        watch = NodeMonitor({"CPU": 1.0}, said.append, lambda: None)
        monkeypatch.setattr(watch, "_find_node", lambda trial: trial.trial_id)
        started = time.monotonic()
        assert all(watch.is_node_lost(FakeTrial(name, number)) for number, name in enumerate(names))
        assert not watch.is_node_lost(FakeTrial("left", 50))
        assert time.monotonic() - started < 5  # 25 seconds one after another
        watch.on_step_begin(0, [])
        assert said[0].startswith("lost 50 nodes (1 left); rescheduling")
        monkeypatch.setattr("study.execution.node_monitor._RECHECK_INTERVAL_S", 0.0)
        started = time.monotonic()
        watch.on_step_begin(0, [])
        assert 0.4 < time.monotonic() - started < 5
    assert said[1:] == []


def test_a_run_is_named_by_what_it_has():
    labels = {"variant": "T-LS", "epsilon": 0.2, "switch": 0.5, "rate": None, "seed": 0}
    assert format_run_name(labels) == "T-LS epsilon 0.2 switch 0.5 seed 0"
    assert format_run_name({"variant": "BM25", "epsilon": 0.0, "switch": None, "seed": None}) == "BM25"
    linear = {"variant": "T-LS", "schedule": "linear", "epsilon": 0.2, "end": 0.8, "seed": 1}
    assert format_run_name(linear) == "T-LS linear epsilon 0.2 end 0.8 seed 1"
