"""The next run follows from the study file and the finished records alone.

No model is trained here: records are written by hand with a metric that is a pure function of a run's labels.
"""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import run_record as record
from study.scheduling.choice import compute_mean
from study.scheduling.trials import TrialRequest
from tests.study.driving import (
    SEEDS,
    STUDY,
    TRIALS,
    Labels,
    by_hand,
    decisions,
    drive,
    empty_folder,
    names,
    quality,
    scheduler,
)


def test_the_whole_study_runs_once_and_a_second_start_decides_the_same(tmp_path):
    made = scheduler(tmp_path)
    started = drive(made)
    counts = Counter(item.name for item in made.configurations)
    assert counts == {"BERT": 1, "BM25": 1, "cosine": 1, **TRIALS}
    assert len(set(names(started))) == len(started) == made.n_trials
    assert all(len(item.runs) == (1 if item.name in ("BM25", "cosine") else len(SEEDS)) for item in made.configurations)
    assert len({item.id for item in made.configurations}) == len(made.configurations)
    second = scheduler(tmp_path)
    for each in (made, second):
        assert each.is_finished
        assert each.pop_request() is None
    assert decisions(second) == decisions(made)
    assert second.select_winners() == made.select_winners()


def test_only_the_variants_of_the_study_are_run(tmp_path):
    study = STUDY.model_copy(update={"variants": ("BERT", "T-LS")})
    made = scheduler(tmp_path, study)
    started = drive(made)
    assert Counter(item.name for item in made.configurations) == {"BERT": 1, "BM25": 1, "cosine": 1, "T-LS": 5}
    assert len(started) == made.n_trials


@pytest.mark.parametrize("concurrent", [1, 3, 50])
def test_a_round_waits_for_the_one_before(tmp_path, concurrent):
    made = scheduler(tmp_path)

    def watch(running: list[TrialRequest]) -> None:
        for name in TRIALS:
            proposed = [item for item in made.configurations if item.name == name]
            last_round = proposed[(len(proposed) - 1) // STUDY.search.round_size * STUDY.search.round_size :]
            earlier = [run.id for item in proposed if item not in last_round for run in item.runs]
            assert len(last_round) <= STUDY.search.round_size
            assert all(record.is_run_finished(tmp_path, run_id) for run_id in earlier)

    drive(made, concurrent=concurrent, watch=watch)


def test_the_variants_are_searched_side_by_side(tmp_path):
    """All that may start at once: the fixed systems, and the first round of every search."""
    made = scheduler(tmp_path)
    requests = list(iter(made.pop_request, None))
    counts = Counter(request.labels["variant"] for request in requests)
    seeds = len(SEEDS)
    assert counts == {"BERT": seeds, "BM25": 1, "cosine": 1, **dict.fromkeys(TRIALS, 2 * seeds)}


def test_tests_start_when_the_search_is_over_and_only_for_the_chosen(tmp_path):
    made = scheduler(tmp_path)
    started = drive(made)
    actions = [request.trial.action for request in started]
    tests = started[actions.index("test") :]
    assert {request.trial.action for request in tests} == {"test"}
    expected = {run.id for item in by_hand(made).values() for run in item.runs}
    assert {request.trial.specification.id for request in tests} == expected
    assert {request.labels["variant"] for request in tests} == {"BERT", "BM25", "cosine", *TRIALS}
    assert len(tests) == len(expected) == (len(TRIALS) + 1) * len(SEEDS) + 2
    assert all(request.split == "test" for request in tests)


@settings.get_profile("costly")
@given(st.integers(), st.integers(1, 20))
def test_the_order_in_which_runs_end_decides_nothing(seed, concurrent):
    with empty_folder() as one, empty_folder() as other:
        first, second = scheduler(one), scheduler(other)
        plain = drive(first, concurrent=1)
        shuffled = drive(second, order=random.Random(seed), concurrent=concurrent)
        assert decisions(first) == decisions(second)
        assert names(plain) == names(shuffled)
        assert {name: item.id for name, item in first.select_winners().items()} == {
            name: item.id for name, item in second.select_winners().items()
        }


def test_results_decide_what_is_proposed(tmp_path):
    first, second = scheduler(tmp_path / "a"), scheduler(tmp_path / "b")
    drive(first)
    drive(second, metric=lambda labels: 1 - quality(labels))
    assert decisions(first) != decisions(second)


@settings.get_profile("costly")
@given(st.integers(), st.lists(st.integers(1, 12), max_size=5), st.integers(1, 8))
def test_a_killed_study_goes_on_as_if_it_had_not_been(seed, kills, concurrent):
    order = random.Random(seed)
    with empty_folder() as one, empty_folder() as other:
        whole = scheduler(one)
        expected = drive(whole)
        for steps in kills:
            killed = scheduler(other)
            drive(killed, order=order, concurrent=concurrent, stop_after=steps)
        last = scheduler(other)
        rest = drive(last, order=order, concurrent=concurrent)
        splits = {"train": "dev", "test": "test"}
        assert all(record.is_run_finished(other, run_id, splits[action]) for run_id, action in names(expected))
        assert len(list(other.glob("runs/*/*.json"))) == len(expected)
        assert decisions(last) == decisions(whole)
        assert set(names(rest)) <= set(names(expected))


@settings.get_profile("costly")
@given(st.integers(), st.floats(0, 0.5))
def test_a_configuration_with_a_failed_seed_is_never_chosen(seed, share):
    draw = random.Random(seed)
    failing: dict[str, bool] = {}

    def metric(labels: Labels) -> float | None:
        key = labels["specification_id"]
        failing.setdefault(key, draw.random() < share)
        return None if failing[key] else quality(labels)

    with empty_folder() as folder:
        made = scheduler(folder)
        started = drive(made, metric=metric, concurrent=1)
        assert len(started) == len(set(names(started)))
        assert Counter(item.name for item in made.configurations) >= Counter(TRIALS)
        chosen = made.select_winners()
        assert {name: item.id for name, item in chosen.items()} == {
            name: item.id for name, item in by_hand(made, metric).items()
        }
        for item in made.configurations:
            if any(failing[run.id] for run in item.runs):
                assert compute_mean(item, made.store, made.metric) is None
                assert item not in chosen.values()
        tested = {request.labels["configuration_id"] for request in started if request.trial.action == "test"}
        assert tested == {item.id for item in chosen.values()}


def test_the_first_of_equals_is_chosen_even_if_all_are_zero(tmp_path):
    made = scheduler(tmp_path)
    drive(made, metric=lambda labels: 0.0)
    for name, item in made.select_winners().items():
        assert item == next(other for other in made.configurations if other.name == name)


def test_a_failed_run_is_tried_again_at_the_next_start(tmp_path):
    def metric(labels: Labels) -> float | None:
        return None if (labels["variant"], labels["seed"]) == ("BERT", 2) else quality(labels)

    first = scheduler(tmp_path)
    drive(first, metric=metric)
    assert "BERT" not in first.select_winners()
    second = scheduler(tmp_path)
    again = drive(second)
    assert [(request.labels["variant"], request.labels["seed"], request.trial.action) for request in again] == [
        ("BERT", 2, "train"),
        ("BERT", 1, "test"),
        ("BERT", 2, "test"),
    ]


def test_a_retry_after_the_test_set_was_seen_leaves_one_tested_configuration_a_system(tmp_path):
    """Otherwise the analysis finds two tested configurations of one system, and the test set has helped to choose."""
    whole = scheduler(tmp_path / "whole")
    drive(whole)
    best = {run.id for name in TRIALS for run in whole.select_winners()[name].runs[:1]}

    first = scheduler(tmp_path / "failing")
    drive(first, metric=lambda labels: None if labels["specification_id"] in best else quality(labels))
    second = scheduler(tmp_path / "failing")
    drive(second)
    places = {path.parent.name for path in (tmp_path / "failing").glob("runs/*/test.json")}
    proposed = {item.id: item for item in [*first.configurations, *second.configurations]}
    tested = [item for item in proposed.values() if item.runs[0].id in places]
    assert Counter(item.name for item in tested) == {"BERT": 1, "BM25": 1, "cosine": 1, **dict.fromkeys(TRIALS, 1)}


def test_a_run_is_labelled_with_all_that_one_may_group_by(tmp_path):
    for request in drive(scheduler(tmp_path)):
        labels, run = request.labels, request.trial.specification
        assert labels["specification_id"] == run.id
        assert labels["configuration_id"] == run.configuration_id
        assert labels["seed"] == run.seed
        assert (labels["study"], labels["plan_hash"], labels["task"]) == ("small", "plan-hash", "docstrings")
        assert labels["specification"] == run.model_dump(mode="json")
        if labels["variant"] in TRIALS:
            variant = run.variant.model_dump()
            assert {key: labels[key] for key in variant} == variant
            assert (labels["switch"] is not None) == labels["variant"].startswith("T-")


def test_every_fork_point_of_the_search_is_asked_of_every_run(tmp_path):
    """Switch points 0.25, 0.5, 0.75 of 64 instances in batches of 32: after 32 and after 64."""
    started = [request for request in drive(scheduler(tmp_path)) if request.labels["variant"] not in ("BM25", "cosine")]
    assert {request.trial.fork_points for request in started} == {(32, 64)}


def beginning(kept: set[str], keys: list[str]) -> int:
    """Counts the stages that a run finds; it starts from the furthest."""
    return max((number for number, key in enumerate(keys, 1) if key in kept), default=0)


@settings.get_profile("costly")
@given(st.integers(), st.integers(1, 8), st.floats(0, 0.3))
def test_a_store_that_keeps_only_what_is_needed_misses_nothing(seed, concurrent, share):
    """Stages as they would be kept by a study of unlimited budget, and by one without any."""
    draw = random.Random(seed)
    failing: dict[str, bool] = {}
    everything: set[str] = set()
    needed: set[str] = set()
    known: list[TrialRequest] = []

    def metric(labels: Labels) -> float | None:
        failing.setdefault(labels["specification_id"], draw.random() < share)
        return None if failing[labels["specification_id"]] else quality(labels)

    with empty_folder() as folder:
        made = scheduler(folder)

        def watch(running: list[TrialRequest]) -> None:
            for ended in [request for request in known if request not in running]:
                known.remove(ended)
                if ended.trial.action == "train" and record.is_run_finished(folder, ended.trial.specification.id):
                    keys = made.list_checkpoint_keys(ended.trial.specification)
                    everything.update(keys)
                    needed.update(keys)
            wanted = made.list_needed_checkpoints()
            needed.intersection_update(wanted)
            for request in [request for request in running if request not in known]:
                known.append(request)
                keys = made.list_checkpoint_keys(request.trial.specification)
                assert beginning(needed, keys) == beginning(everything, keys)
                if request.trial.action == "test" and keys:
                    assert keys[-1] in needed
            waiting = {
                f"resume/{request.trial.specification.id}" for request in running if request.trial.action == "train"
            }
            assert waiting <= wanted

        drive(made, metric=metric, order=draw, concurrent=concurrent, watch=watch)
        to_keep = {made.list_checkpoint_keys(run)[-1] for _, run in made.list_models_to_keep()}
        assert made.list_needed_checkpoints() == to_keep
