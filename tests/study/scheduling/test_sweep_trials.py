"""Trials of sweeps in a study: completed, chosen from like what the study proposes, and nothing after the test.

No model is trained: records are written by hand with a metric that is a pure function of a run's labels.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from search_spaces.space import Params
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.execution.trial_runner import StudyTrials
from study.folder.remote_records import RemoteRecords
from study.folder.run_store import RunStore
from study.scheduling import sweep_trials as swept
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import ConfigurationFactory, PlannedConfiguration, TrialRequest
from study.utils.live_view import LiveView
from study.wandb_sweeps.run_configuration import SingleConfigurationScheduler
from study.workflows import session
from study.workflows.open_study import OpenStudy
from tests.study.driving import RESOLVED, SEEDS, STUDY, Labels, by_hand, decisions, drive, names, quality
from trainables.utils.errors import UserError

BEST = ("T-LS", Params((("epsilon", 0.25), ("schedule", "two_stage"), ("switch", 0.6))))
LINEAR = ("T-LS", Params((("epsilon", 0.2), ("schedule", "linear"), ("end", 0.5))))
FASTER = ("BERT", Params((), (("learning_rate", 1e-4),)))


def metric(labels: Labels) -> float | None:
    """Returns the quality of a run, and the largest for the configuration BEST."""
    return 2.0 if labels["switch"] == 0.6 else quality(labels)


def configuration(name: str, point: Params, study: Study = STUDY) -> PlannedConfiguration:
    return ConfigurationFactory(study, RESOLVED, "plan-hash").make_configuration(name, point, study.seeds, "search")


def scheduler(folder: Path, *others: tuple[str, Params], study: Study = STUDY) -> StudyScheduler:
    return StudyScheduler(study, RESOLVED, RunStore(folder), "plan-hash", sweep_params=others)


def single(folder: Path, name: str, point: Params) -> SingleConfigurationScheduler:
    return SingleConfigurationScheduler(
        in_folder(folder), RESOLVED, RunStore(folder), "plan-hash", configuration(name, point)
    )


def in_folder(folder: Path, **changes: Any) -> Study:
    return get_study_class().model_validate({**STUDY.model_dump(), "output": {"folder": str(folder)}, **changes})


def test_a_single_configuration_runs_all_its_seeds_once_and_no_test(tmp_path):
    made = single(tmp_path, *BEST)
    requests = drive(made, metric)
    assert [request.trial.action for request in requests] == ["train"] * len(SEEDS) == ["train"] * made.n_trials
    assert {request.labels["configuration_id"] for request in requests} == {configuration(*BEST).id}
    assert made.result == 2.0
    assert made.failures == []
    again = single(tmp_path, *BEST)
    assert again.is_finished
    assert again.result == made.result


def test_its_runs_are_those_of_a_study(tmp_path):
    """The same specifications with the same labels, so that they stand in one table."""
    begun = scheduler(tmp_path)
    expected = {request.trial.specification.id: request for request in iter(begun.pop_request, None)}
    proposed = [item for item in begun.configurations if item.name == "T-LS"]
    for item in proposed:
        for request in iter(single(tmp_path, item.name, item.params).pop_request, None):
            assert request.labels == expected[request.trial.specification.id].labels
            assert request.trial.fork_points == expected[request.trial.specification.id].trial.fork_points


def test_a_seed_that_fails_is_told_with_its_cause(tmp_path):
    made = single(tmp_path, *BEST)
    drive(made, lambda labels: None if labels["seed"] == SEEDS[1] else 0.5)
    assert made.result is None
    assert made.failures == [f"T-LS epsilon 0.25 switch 0.6 seed {SEEDS[1]}: boom"]
    assert not single(tmp_path, *BEST).is_finished, "it is tried again"


def test_what_a_sweep_ran_is_not_run_again_and_chosen_if_it_is_best(tmp_path):
    drive(single(tmp_path, *BEST), metric)
    made = scheduler(tmp_path, BEST)
    started = drive(made, metric)
    ids = {run.id for run in configuration(*BEST).runs}
    assert ids & {request.trial.specification.id for request in started if request.trial.action == "train"} == set()
    assert ids <= {request.trial.specification.id for request in started if request.trial.action == "test"}
    assert made.select_winners() == by_hand(made, metric)
    assert made.select_winners()["T-LS"].id == configuration(*BEST).id
    assert len(started) == made.n_trials - len(SEEDS)


def test_unfinished_seeds_are_completed_before_anything_is_chosen(tmp_path):
    drive(single(tmp_path, *BEST), metric, stop_after=1)
    started = drive(scheduler(tmp_path, BEST), metric)
    own = [request for request in started if request.labels["configuration_id"] == configuration(*BEST).id]
    assert [request.trial.action for request in own] == ["train", *["test"] * len(SEEDS)]


def broken(labels: Labels) -> float | None:
    """Returns the quality of a run, and None for one seed of the configuration BEST."""
    return None if labels["switch"] == 0.6 and labels["seed"] == SEEDS[0] else metric(labels)


def test_one_that_stays_incomplete_is_not_chosen(tmp_path):
    made = scheduler(tmp_path, BEST, LINEAR, FASTER)
    drive(made, broken)
    assert made.is_finished
    assert made.select_winners() == by_hand(made, broken)
    assert made.select_winners()["T-LS"].id != configuration(*BEST).id


def test_the_searches_propose_as_they_would_have(tmp_path):
    alone, beside = scheduler(tmp_path / "alone"), scheduler(tmp_path / "beside", BEST, LINEAR, FASTER)
    for made in (alone, beside):
        drive(made, metric)
    kept = {item.id for item in beside.configurations} - {configuration(*one).id for one in (BEST, LINEAR, FASTER)}
    assert [pair for pair in decisions(beside) if pair[1] in kept] == decisions(alone)
    assert Counter(item.name for item in beside.configurations)["T-LS"] == STUDY.search.n_configurations["T-LS"] + 2


def test_one_that_is_also_proposed_counts_once(tmp_path):
    reference = scheduler(tmp_path / "reference")
    drive(reference)
    points = [(item.name, item.params) for item in reference.configurations if item.name in ("LS", "T-LS", "BERT")]
    made = scheduler(tmp_path / "made", *points, points[0])
    started = drive(made)
    assert names(started) == names(drive(scheduler(tmp_path / "again")))
    assert sorted(decisions(made)) == sorted(decisions(reference))
    assert made.select_winners() == reference.select_winners()


@pytest.mark.parametrize("stop", [1, 5, 20, 30])
def test_a_restart_decides_alike(tmp_path, stop):
    whole = scheduler(tmp_path / "whole", BEST, LINEAR)
    drive(whole, metric)
    drive(scheduler(tmp_path / "killed", BEST, LINEAR), metric, random.Random(stop), stop_after=stop)
    again = scheduler(tmp_path / "killed", LINEAR, BEST)
    drive(again, metric, random.Random(stop + 1))
    assert again.select_winners() == whole.select_winners()
    assert sorted(decisions(again)) == sorted(decisions(whole))


@pytest.mark.parametrize("earlier", [(LINEAR,), ()], ids=["one before", "none before"])
def test_what_is_swept_after_the_test_does_not_change_the_choice(tmp_path, earlier):
    before = scheduler(tmp_path, *earlier)
    drive(before, metric)
    drive(single(tmp_path, *BEST), metric)
    after = scheduler(tmp_path, *earlier, BEST)
    assert after.is_finished
    assert after.select_winners() == before.select_winners()
    ids = {item.id for item in after.configurations}
    assert {configuration(*one).id for one in earlier} <= ids
    assert configuration(*BEST).id not in ids


def test_what_failed_is_not_made_good_after_the_test(tmp_path):
    before = scheduler(tmp_path, BEST)
    drive(before, broken)
    again = single(tmp_path, *BEST)
    assert drive(again, metric) == []
    assert again.is_finished
    assert again.result is None
    assert len(again.failures) == 1
    assert scheduler(tmp_path, BEST).select_winners() == before.select_winners()


def test_a_variant_that_is_not_the_studys_is_left_alone(tmp_path):
    made = scheduler(tmp_path, BEST, study=STUDY.model_copy(update={"variants": ("BERT", "LS")}))
    assert "T-LS" not in {item.name for item in made.configurations}


def test_the_log_shows_them_next_to_the_proposals_and_proposes_nothing_else_for_it(tmp_path):
    made = scheduler(tmp_path, BEST)
    drive(made, metric)
    log = made.build_search_log()["systems"]
    rows = log["T-LS"]["proposals"]
    (own,) = [row for row in rows if row.get("swept")]
    assert own["configuration_id"] == configuration(*BEST).id == log["T-LS"]["winner"]
    assert [row["number"] for row in rows] == list(range(STUDY.search.n_configurations["T-LS"] + 1))
    again = StudyScheduler(STUDY, RESOLVED, RunStore(tmp_path), "plan-hash", previous_log=log, sweep_params=[BEST])
    assert decisions(again) == decisions(made)
    assert again.build_search_log()["systems"] == log


def test_a_search_that_goes_on_from_its_log_proposes_what_it_would_have(tmp_path):
    """A budget ended it after a round: what was swept stands in the log where the next proposals will."""
    alone = scheduler(tmp_path / "alone")
    drive(alone, metric)
    proposed = {item.params for item in alone.configurations}
    others = [("T-LS", point) for point in alone.searches["T-LS"].search.configurations if point not in proposed][:3]
    whole = scheduler(tmp_path / "whole", *others)
    drive(whole, metric)
    place = tmp_path / "stopped"
    spent = lambda: "search.hours" if any(place.glob("runs/*")) else None  # noqa: E731
    stopped = StudyScheduler(STUDY, RESOLVED, RunStore(place), "plan-hash", spent, sweep_params=others)
    while not stopped.searches["T-LS"].stopped_by:
        drive(stopped, metric, concurrent=1, stop_after=1)
    before = stopped.build_search_log()["systems"]
    assert sum("swept" in row for row in before["T-LS"]["proposals"]) >= 2
    again = StudyScheduler(STUDY, RESOLVED, RunStore(place), "plan-hash", previous_log=before, sweep_params=others)
    drive(again, metric)
    assert decisions(again) == decisions(whole)


def test_the_final_weights_of_the_best_swept_ones_are_kept(tmp_path):
    for one in (LINEAR, BEST):
        drive(single(tmp_path, *one), metric)
        swept.register_sweep_trial(tmp_path, configuration(*one))
    made = single(tmp_path, *LINEAR)
    final = {made.list_checkpoint_keys(run)[-1] for run in configuration(*BEST).runs}
    assert made.list_needed_checkpoints() == final
    unfinished = single(tmp_path, *FASTER)
    assert unfinished.list_needed_checkpoints() > final
    assert {f"resume/{run.id}" for run in configuration(*FASTER).runs} < unfinished.list_needed_checkpoints()


def test_what_was_kept_is_read_again(tmp_path):
    said: list[str] = []
    study = in_folder(tmp_path)
    assert swept.read_sweep_trials(study, said.append) == []
    for one in (BEST, LINEAR, FASTER, BEST):
        swept.register_sweep_trial(tmp_path, configuration(*one))
    swept.freeze_sweep_trials(tmp_path, ["a", "b"])
    found = swept.read_sweep_trials(study, said.append)
    assert sorted(found) == sorted([BEST, LINEAR, FASTER])
    assert found == sorted(found, key=lambda one: configuration(*one).id)
    assert swept.read_frozen_ids(tmp_path) == {"a", "b"}
    assert said == []


def test_one_that_does_not_fit_the_study_any_more_is_left_out_and_told(tmp_path):
    swept.register_sweep_trial(tmp_path, configuration(*BEST))
    swept.register_sweep_trial(tmp_path, configuration("LS", Params((("epsilon", 0.2),), (("batch_size", 64),))))
    said: list[str] = []
    assert swept.read_sweep_trials(in_folder(tmp_path), said.append) == [BEST]
    (line,) = said
    assert "batch_size: '64'; expected a name out of" in line


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"variant": "LS"}', '{"variant": "LS", "values": 3}'])
def test_a_damaged_file_is_a_mistake_in_one_line(tmp_path, content):
    swept.freeze_sweep_trials(tmp_path, [])
    for name, read in {
        "0123.json": lambda: swept.read_sweep_trials(in_folder(tmp_path), print),
        "closed.json": None,
    }.items():
        (tmp_path / "swept" / name).write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=f"{name}: damaged"):
            read() if read else swept.read_frozen_ids(tmp_path)


def test_they_go_to_where_the_records_are_kept_and_come_from_there(tmp_path):
    here, there, place = tmp_path / "here", tmp_path / "there", str(tmp_path / "place")
    swept.register_sweep_trial(here, configuration(*BEST))
    swept.freeze_sweep_trials(here, ["a"])
    RemoteRecords(place, here, print).upload_study()
    RemoteRecords(place, there, print).download("small")
    assert swept.read_sweep_trials(in_folder(there), print) == [BEST]
    assert swept.read_frozen_ids(there) == {"a"}


def test_from_what_is_chosen_is_known_elsewhere_before_a_test_score_is(tmp_path, monkeypatch):
    study = in_folder(tmp_path / "here", tracking={"mode": "disabled"})
    archive = RemoteRecords(str(tmp_path / "place"), study.folder, print)
    swept.register_sweep_trial(study.folder, configuration(*BEST))

    class KilledError(Exception):
        """In the first test."""

    def carry_out(studies: list[StudyTrials], cluster: str | None, view: LiveView) -> None:
        (trials,) = studies
        assert isinstance(trials.scheduler, StudyScheduler)

        def watch(running: list[TrialRequest]) -> None:
            trials.on_trial_end()
            if any(request.trial.action == "test" for request in running):
                raise KilledError

        drive(trials.scheduler, metric, watch=watch)

    monkeypatch.setattr(
        session, "open_study", lambda study: OpenStudy(study, RESOLVED, "plan-hash", archive, None, None)
    )
    monkeypatch.setattr(session, "run_trials", carry_out)
    with pytest.raises(KilledError):
        session.run_study(study, 0.0)
    there = tmp_path / "there"
    RemoteRecords(str(tmp_path / "place"), there, print).download("small")
    assert swept.read_frozen_ids(there) == {configuration(*BEST).id}


def test_seeds_that_serve_are_an_error_where_sweeps_add_configurations(tmp_path, monkeypatch):
    """The study would choose among them by the very runs that it then tests."""
    search = STUDY.search.model_dump() | {"n_configurations": dict.fromkeys(STUDY.search.n_configurations, 1)}
    confirm, tracking = {"seeds": (*SEEDS, 101)}, {"mode": "disabled"}
    study = in_folder(tmp_path, tracking=tracking, confirm=confirm, search=search)
    swept.register_sweep_trial(study.folder, configuration(*BEST))
    monkeypatch.setattr(session, "open_study", lambda study: OpenStudy(study, RESOLVED, "plan-hash", None, None, None))
    with pytest.raises(UserError, match=r"confirm\.seeds: .*expected seeds that are not among seeds"):
        session.run_study(study, 0.0)
