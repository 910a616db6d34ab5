"""The queue decides as the rule says that it documents, and its decisions take no longer where more is pending."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.config.study_class import get_study_class
from study.scheduling.queue import RunCheckpoints, TrialQueue
from study.scheduling.trials import TrialRequest
from tests.study.driving import STUDY, drive, empty_folder, scheduler
from trainables.specs.run_spec import RunSpec

SYSTEMS = ("LS", "T-LS", "BM25")
CURRICULUM = {"variants": ["BERT"], "compare": "score", "score": ["random", "BERT_pred", "BERT_loss"]}


class PlainQueue:
    """The oracle: looks at every pending trial for every decision."""

    def __init__(self, list_checkpoints: Any, count_rounds_left: Any) -> None:
        self._list_checkpoints, self._count_rounds_left = list_checkpoints, count_rounds_left
        self._pending: dict[str, TrialRequest] = {}
        self._running: dict[str, TrialRequest] = {}
        self._saved = set[str]()

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._pending or run_id in self._running

    def __len__(self) -> int:
        return len(self._pending) + len(self._running)

    def add(self, request: TrialRequest) -> None:
        self._pending[request.trial.specification.id] = request

    def pop(self) -> TrialRequest | None:
        free = [key for key, request in self._pending.items() if _needed(request) not in self]
        if not free:
            return None
        awaited = {_needed(request) for request in self._pending.values()}
        busy = {own[0][1] for request in self._running.values() if (own := self._checkpoints(request))}

        def priority(key: str) -> tuple[bool, bool, int, int]:
            own, rounds = self._checkpoints(self._pending[key]), 0
            if not own:
                return key in awaited, True, 0, 0
            rounds = self._count_rounds_left(self._pending[key].labels["variant"])
            done = max((stop for stop, name in own if name in self._saved), default=0)
            return key in awaited, own[0][1] not in busy, rounds, own[-1][0] - done

        chosen = max(free, key=priority)
        request = self._running[chosen] = self._pending.pop(chosen)
        return request

    def mark_ended(self, run_id: str) -> None:
        self._running.pop(run_id, None)

    def mark_finished(self, run: RunSpec) -> None:
        self._saved |= {key for _, key in self._list_checkpoints(run)}

    def _checkpoints(self, request: TrialRequest) -> RunCheckpoints:
        return self._list_checkpoints(request.trial.specification) if request.trial.action == "train" else ()


def _needed(request: TrialRequest) -> str | None:
    curriculum = request.trial.specification.curriculum
    return curriculum.scorer if curriculum else None


class _Run:
    """Stands for the specification of a run."""

    def __init__(self, number: int, system: str, checkpoints: RunCheckpoints, scorer: str | None) -> None:
        self.id, self.system, self.checkpoints = f"run-{number}", system, checkpoints
        self.curriculum = type("Curriculum", (), {"scorer": scorer})() if scorer else None

    def request(self, action: str) -> Any:
        trial = type("Trial", (), {"specification": self, "action": action})()
        return TrialRequest(trial, {"variant": self.system})


@st.composite
def _runs(draw: st.DrawFn) -> list[_Run]:
    """Runs; some share their first checkpoints, and some need another run."""
    made = list[_Run]()
    for number in range(draw(st.integers(1, 12))):
        keys = draw(st.lists(st.sampled_from("abcdef"), max_size=3, unique=True))
        own = tuple((8 * "_abcdef".index(key), key) for key in sorted(keys))  # a key says after how many instances
        scorer = draw(st.sampled_from([None, None, "run-0", "run-1"])) if number > 1 else None
        made.append(_Run(number, draw(st.sampled_from(SYSTEMS)), own, scorer))
    return made


@given(_runs(), st.lists(st.integers(0, 10**6), min_size=60, max_size=60))
def test_every_decision_is_that_of_the_rule(runs, draws):
    rounds = dict.fromkeys(SYSTEMS, 3)
    fast, plain = (kind(lambda run: run.checkpoints, rounds.__getitem__) for kind in (TrialQueue, PlainQueue))
    running = list[str]()
    for draw in draws:
        run, step = runs[draw % len(runs)], draw // 16 % 5
        if step == 0 and run.id not in fast:
            action = "test" if draw % 7 == 0 else "train"
            fast.add(run.request(action))
            plain.add(run.request(action))
        elif step in (1, 2):
            found, expected = fast.pop(), plain.pop()
            assert (found and found.trial.specification.id) == (expected and expected.trial.specification.id)
            running += [found.trial.specification.id] if found else []
        elif step == 3 and running:
            ended = running.pop(draw % len(running))
            fast.mark_ended(ended)
            plain.mark_ended(ended)
            if draw % 3:
                for queue in (fast, plain):
                    queue.mark_finished(next(run for run in runs if run.id == ended))
        elif step == 4:
            rounds[SYSTEMS[draw % 3]] = draw // 7 % 4
        assert len(fast) == len(plain)
        assert all((run.id in fast) == (run.id in plain) for run in runs)


@pytest.mark.parametrize("concurrent", [1, 3, 20])
@pytest.mark.parametrize("change", [{}, {"round_size": 8}, {"curriculum": CURRICULUM}])
def test_a_study_starts_the_same_trials_in_the_same_order(monkeypatch, change, concurrent):
    started = []
    for queue in (TrialQueue, PlainQueue):
        monkeypatch.setattr("study.scheduling.scheduler.TrialQueue", queue)
        with empty_folder() as folder:
            begun = drive(scheduler(folder, _study(change)), order=random.Random(1), concurrent=concurrent)
        started.append([(request.trial.specification.id, request.trial.action) for request in begun])
    assert started[0] == started[1]
    assert len(started[0]) > 10


def _study(change: dict[str, Any]) -> Any:
    parts = STUDY.model_dump(mode="json", exclude_unset=True)
    if "curriculum" in change:
        parts["training"]["sampling"] = "uniform"
        return get_study_class().model_validate({**parts, **change, "variants": ["BERT"], "search": {}})
    return get_study_class().model_validate({**parts, "search": parts["search"] | change, "seeds": (1, 2, 3, 4)})


@pytest.mark.parametrize("pending", [100, 3000])
def test_a_decision_asks_as_much_however_many_trials_are_pending(pending):
    asked = 0

    def count_rounds_left(system: str) -> int:
        nonlocal asked
        asked += 1
        return 1

    queue = TrialQueue(lambda run: run.checkpoints, count_rounds_left)
    for number in range(pending):
        checkpoints = ((8, f"shared-{number % 50}"), (16, f"{number}"))
        queue.add(_Run(number, SYSTEMS[number % 2], checkpoints, None).request("train"))
    while (request := queue.pop()) is not None:
        queue.mark_finished(request.trial.specification)
        queue.mark_ended(request.trial.specification.id)
    assert len(queue) == 0
    assert asked <= 4 * pending  # two systems, with and without a trial to wait for


def test_the_check_for_due_runs_does_not_look_at_all_of_them(tmp_path, monkeypatch):
    looks = 0

    def contains(queue: TrialQueue, run_id: str) -> bool:
        nonlocal looks
        looks += 1
        return run_id in queue._queue or run_id in queue._running

    monkeypatch.setattr(TrialQueue, "__contains__", contains)
    study = get_study_class().model_validate(
        STUDY.model_dump(mode="json", exclude_unset=True) | {"seeds": tuple(range(1, 21))}
    )
    trials = len(drive(scheduler(tmp_path, study), concurrent=20))
    assert trials > 200
    assert looks < 10 * trials
