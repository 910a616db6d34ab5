"""Race, confirmation and budgets: what they run, what they drop, and that a restart decides alike.

No model is trained: scores are written by hand, each a pure function of configuration, seed and query.
"""

import random
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import search_log as searchlog
from study.config.schema import Study
from study.scheduling.trials import TrialRequest
from tests.study.driving import decisions, empty_folder, names
from tests.study.scored import conduct, scheduler, strength, study, trained

RACING: dict[str, Any] = {
    "variants": ("BERT", "LS", "T-LS"),
    "search": {"pruning": "race", "round_size": 4, "n_configurations": {"LS": 4, "T-LS": 5}},
}


def test_what_is_far_behind_gets_no_more_seeds_and_what_is_not_gets_all(tmp_path):
    made = scheduler(study(**RACING), tmp_path)
    seeds = trained(conduct(made), "LS")
    variant_search = made.searches["LS"]
    assert len(seeds) == 4
    for item in variant_search.configurations:
        got = sorted(seeds[item.id])
        assert got == [1, 2, 3, 4, 5][: variant_search.pruned.get(item.id, 5)]
        if item.smoothing.epsilon == 0.3:
            assert item.id not in variant_search.pruned
        if item.smoothing.epsilon == 0.1:
            assert variant_search.pruned[item.id] < 5
    assert made.select_winners()["LS"].smoothing.epsilon == 0.3
    assert made.select_winners()["LS"].id not in variant_search.pruned


def test_without_a_race_nothing_is_dropped(tmp_path):
    made = scheduler(study(variants=RACING["variants"], search={**RACING["search"], "pruning": None}), tmp_path)
    assert all(sorted(seeds) == [1, 2, 3, 4, 5] for seeds in trained(conduct(made), "LS").values())
    assert not any(variant_search.pruned for variant_search in made.searches.values())


@settings.get_profile("costly")
@given(st.integers(0, 99), st.lists(st.integers(5, 40), min_size=1, max_size=2))
def test_a_race_decides_the_same_in_any_order_and_after_any_kill(seed, kills):
    order, made = random.Random(seed), study(**RACING, confirm={"seeds": (11, 12)})
    with empty_folder() as one, empty_folder() as other:
        whole = scheduler(made, one)
        expected = conduct(whole)
        again: list[TrialRequest] = []
        for stop in kills:
            killed = scheduler(made, other, previous_log=searchlog.read_searches(other))
            again += conduct(killed, order=order, stop=stop)
            searchlog.write_search_log(other, killed.build_search_log())
        last = scheduler(made, other, previous_log=searchlog.read_searches(other))
        again += conduct(last, order=order)
        assert names(again) == names(expected)
        assert decisions(last) == decisions(whole)
        assert last.build_search_log() == whole.build_search_log()
        assert {name: variant_search.pruned for name, variant_search in last.searches.items()} == {
            name: variant_search.pruned for name, variant_search in whole.searches.items()
        }


def test_winners_and_defaults_are_run_with_fresh_seeds_before_the_test_set_is_touched(tmp_path):
    made = scheduler(study(confirm={"seeds": (11, 12)}), tmp_path)
    started = conduct(made)
    actions = [(request.trial.action, request.labels["role"]) for request in started]
    searching = [place for place, (action, role) in enumerate(actions) if action == "train" and role != "confirm"]
    fresh = [place for place, (action, role) in enumerate(actions) if action == "train" and role == "confirm"]
    testing = [place for place, (action, _) in enumerate(actions) if action == "test"]
    assert max(searching) < min(fresh)
    assert max(fresh) < min(testing)
    winners = {name: item.id for name, item in made.select_winners().items()}
    defaults = {name: made.make_default_configuration(name).id for name in made.searches}
    confirmed = {(started[place].labels["configuration_id"], started[place].labels["seed"]) for place in fresh}
    wanted = {*winners.values(), *defaults.values()} - {winners["BM25"], winners["cosine"]}
    assert confirmed == {(key, seed) for key in wanted for seed in (11, 12)}
    tested = {(started[place].labels["configuration_id"], started[place].labels["seed"]) for place in testing}
    assert tested == {(key, s) for key in winners.values() for s in ((11, 12) if key in wanted else (None,))}
    assert len(started) == made.n_trials
    assert scheduler(made.study, tmp_path).is_finished


def test_a_confirmed_winner_is_chosen_by_the_search_alone(tmp_path):
    """Fresh seeds that are all bad for the winner change nothing: they judge it, they do not choose."""
    made = scheduler(study(confirm={"seeds": (11, 12)}), tmp_path)
    conduct(made, lambda labels: -9.0 if labels["seed"] in (11, 12) else strength(labels))
    assert made.select_winners()["LS"].smoothing.epsilon == 0.3


def test_a_metric_that_no_trial_wrote_down_is_computed_from_the_scores(tmp_path):
    """More epsilon, up to 0.3, raises the relevant document's score: it is found sooner."""
    trials = {"LS": 4, "T-LS": 2, "WSLS": 2, "T-WSLS": 2}
    made = scheduler(study(search={"n_configurations": trials}, analysis={"metric": "position"}), tmp_path)
    conduct(made)
    assert made.select_winners()["LS"].smoothing.epsilon == 0.3
    log = made.build_search_log()["systems"]["LS"]
    rows = {row["configuration_id"]: row["mean"] for row in log["proposals"]}
    assert log["winner"] == min(rows, key=rows.__getitem__)
    assert all(1 < value < 10 for value in rows.values())
    assert all(row["reported"] == row["mean"] for row in log["proposals"])


def test_a_race_drops_those_of_a_large_position(tmp_path):
    made = scheduler(study(**RACING, analysis={"metric": "position"}), tmp_path)
    conduct(made)
    variant_search = made.searches["LS"]
    assert variant_search.pruned
    assert all(
        item.smoothing.epsilon != 0.3 for item in variant_search.configurations if item.id in variant_search.pruned
    )


def test_of_a_tie_the_first_proposal_is_chosen(tmp_path):
    made = scheduler(study(search={"n_configurations": {"LS": 4, "T-LS": 2, "WSLS": 2, "T-WSLS": 2}}), tmp_path)
    conduct(made, lambda labels: 99.0)
    log = made.build_search_log()["systems"]["LS"]
    assert log["winner"] == log["proposals"][0]["configuration_id"]


@pytest.mark.parametrize("budget", ["search.hours", "search.gpu_hours"])
def test_a_spent_budget_ends_the_search_but_not_the_study(tmp_path, budget):
    rounds = {"left": 6}

    def spent() -> str | None:
        rounds["left"] -= 1
        return None if rounds["left"] > 0 else budget

    made = scheduler(study(), tmp_path, find_exhausted_budget=spent)
    started = conduct(made)
    assert made.is_finished
    stopped = {name: variant_search.stopped_by for name, variant_search in made.searches.items()}
    assert set(stopped.values()) == {None, budget}
    log = made.build_search_log()["systems"]
    for name, variant_search in made.searches.items():
        assert len(variant_search.configurations) == log[name]["proposed"]
        assert (log[name]["proposed"] < log[name]["wanted"]) == (variant_search.stopped_by is not None)
        assert log[name]["stopped"] == variant_search.stopped_by
        assert all(row["state"] == "complete" for row in log[name]["proposals"])
    assert {request.labels["variant"] for request in started if request.trial.action == "test"} >= set(made.searches)
    later = scheduler(study(), tmp_path, find_exhausted_budget=lambda: budget)
    assert later.is_finished
    assert later.build_search_log() == made.build_search_log()


def test_searched_settings_of_training_are_searched_for_the_baseline_too(tmp_path):
    rates = (5e-6, 1e-5)
    made = scheduler(
        study(search={"learning_rate": rates, "n_configurations": {"BERT": 2, "LS": 3}}, variants=("BERT", "LS")),
        tmp_path,
    )
    started = conduct(made)
    assert {e.labels["learning_rate"] for e in started if e.labels["variant"] == "BERT"} == set(rates)
    for request in started:
        training = request.trial.specification.training
        assert training is None or training.learning_rate == request.labels["learning_rate"]
    assert made.searches["BERT"].configurations[0].runs[0].training.learning_rate == 5e-6
    assert {request.labels["role"] for request in started if request.labels["variant"] == "BERT"} == {"baseline"}


def test_a_searched_rank_is_that_of_the_model_and_the_run_that_of_a_study_with_this_rank(tmp_path):
    def make(rank: int, **search: Any) -> Study:
        adapters = {"rank": rank, "alpha": 8.0}
        return study(variants=("BERT", "LS"), model={"lora": adapters}, search=search)

    made = scheduler(make(4, lora={"rank": (4, 16)}, n_configurations={"BERT": 2, "LS": 8}), tmp_path)
    started = conduct(made)
    assert {each.labels["lora_rank"] for each in started if each.labels["variant"] in ("BM25", "cosine")} == {None}
    runs = [request for request in started if request.labels["seed"]]
    assert {(each.labels["variant"], each.labels["lora_rank"]) for each in runs} == {*product(("BERT", "LS"), (4, 16))}
    for specification, labels in ((each.trial.specification, each.labels) for each in runs):
        assert specification.model is not None
        assert (specification.model.lora.rank, specification.model.lora.alpha) == (labels["lora_rank"], 8.0)
    for rank in (4, 16):
        (own,) = [item for item in made.searches["BERT"].configurations if item.params.values == {"lora_rank": rank}]
        fixed = scheduler(make(rank, n_configurations={"LS": 1}), tmp_path / str(rank)).configurations[0]
        assert fixed.name == "BERT"
        assert {run.id for run in fixed.runs} == {run.id for run in own.runs}


def test_the_scoring_run_represents_no_system_however_good_it_is(tmp_path):
    settings: dict[str, Any] = {
        "variants": ("BERT",),
        "curriculum": {"variants": ("BERT",), "compare": "score", "score": ("BERT_loss",)},
        "training": {"sampling": "uniform"},
        "cache": {"folder": str(tmp_path)},
    }
    made = scheduler(study(**settings), tmp_path)
    conduct(made, lambda labels: 9.0 * (labels["role"] == "scorer"))
    assert made.scorer.runs[0].id in made.store.list_run_ids()
    assert "scorer" not in {item.role for item in made.select_winners().values()}
