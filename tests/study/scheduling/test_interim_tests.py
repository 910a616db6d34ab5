"""Sequential confirmation: when it stops, that its report takes the same looks, and that a restart decides alike."""

import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis.readers.study_reader import read_records
from analysis.rendering.conclusion import answer_study, list_warnings
from analysis.rendering.notes import list_search_notes
from analysis.tables.main import ReportData, build_report_data
from records import run_record as record
from records.plan import Plan
from study.config.schema import Study
from study.plan.analysis_plan import build_plan, register_plan
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import TrialRequest
from study.workflows.dry_run import build_preview
from tests.study import scored
from tests.study.driving import RESOLVED, empty_folder, names
from tests.study.scored import Strength, conduct, scheduler, study

FRESH = tuple(range(101, 113))
CONFIRM: dict[str, Any] = {
    "seeds": (1, 2),
    "variants": ("BERT", "LS", "WSLS"),
    "search": {"n_configurations": {"LS": 2, "WSLS": 2}},
    "confirm": {"seeds": FRESH, "group_size": 4},
}


def sequential(folder: Path, **changes: Any) -> StudyScheduler:
    made = study(**(CONFIRM | changes))
    register_plan(made, RESOLVED.model_digest, folder)
    return scheduler(made, folder, plan=Plan.model_validate(build_plan(made, RESOLVED.model_digest)))


def gain(size: float) -> Strength:
    """Returns a metric in which smoothing helps by this much."""
    return lambda labels: 0.5 + size * (labels["epsilon"] is not None and labels["variant"] != "BERT")


def seeds_used(started: list[TrialRequest], action: str, system: str = "LS") -> list[int]:
    mine = [r.labels for r in started if r.trial.action == action and r.labels["variant"] == system]
    return sorted({labels["seed"] for labels in mine} - {1, 2})


def report(folder: Path) -> ReportData:
    return build_report_data(read_records(folder))


def test_a_large_difference_is_decided_at_the_first_look(tmp_path):
    made = sequential(tmp_path)
    started = conduct(made, gain(3.0))
    assert seeds_used(started, "train") == seeds_used(started, "test") == list(FRESH[:4])
    assert made.looks.is_over
    own = report(tmp_path)
    assert own.looks == made.looks
    assert own.table.seeds == 4
    assert {c.verdict for c in own.comparisons if c.family == "variants"} == {"better"}


def test_without_a_difference_all_seeds_are_run_and_nothing_is_called_better(tmp_path):
    made = sequential(tmp_path)
    started = conduct(made, gain(0.0))
    assert seeds_used(started, "train") == list(FRESH)
    own = report(tmp_path)
    assert own.looks == made.looks
    assert [look.seeds for look in own.looks.taken] == [4, 8, 12]
    assert {c.verdict for c in own.comparisons if c.family == "variants"} == {"undecided"}
    assert len(started) == made.n_trials


def test_equivalence_within_a_margin_decides_too(tmp_path):
    started = conduct(sequential(tmp_path, analysis={"margin": 0.8}), gain(0.0))
    assert seeds_used(started, "test") == list(FRESH[:4])
    assert {c.verdict for c in report(tmp_path).comparisons if c.family == "variants"} == {"equivalent"}


def test_the_report_of_a_study_that_waits_for_a_group_is_that_of_the_last_look(tmp_path):
    made = sequential(tmp_path)
    whole = conduct(sequential(tmp_path / "whole"), gain(0.0))
    first = max(index for index, r in enumerate(whole) if r.labels["seed"] in FRESH[:4])
    conduct(made, gain(0.0), stop=first + 3)
    own = report(tmp_path)
    assert own.table.seeds == 4
    assert [look.seeds for look in own.looks.taken] == [4]
    assert not own.looks.is_over
    first, later = ([c.looks[0] for c in made.comparisons if c.looks] for made in (own, report(tmp_path / "whole")))
    assert first == later


def conduct_with_a_failure(made: StudyScheduler, variant: str, seed: int) -> list[TrialRequest]:
    """Runs a study in which smoothing does not help and a run fails."""
    write = scored.write

    def fail_once(folder: Path, request: TrialRequest, quality: Strength) -> None:
        labels = request.labels
        if (labels["variant"], labels["seed"]) == (variant, seed):
            entry = {"id": labels["specification_id"], "state": "failed", "config": labels, "summary": {"error": "so"}}
            record.write_run_record(folder, request.split, {**entry, "history": []}, None)
        else:
            write(folder, request, quality)

    with patch.object(scored, "write", fail_once):
        return conduct(made, gain(0.0))


def test_a_failed_run_ends_the_groups_and_a_restart_goes_on(tmp_path):
    """A look without all its scores is not taken: the failed run is tried again by the next start."""
    made = sequential(tmp_path)
    started = conduct_with_a_failure(made, "WSLS", 106)
    assert seeds_used(started, "train") == list(FRESH[:8])
    assert made.is_finished
    again = conduct(sequential(tmp_path), gain(0.0))
    assert seeds_used([*started, *again], "test") == list(FRESH)


@settings.get_profile("costly")
@given(st.integers(0, 99), st.lists(st.integers(10, 60), min_size=1, max_size=3), st.sampled_from([0.0, 0.35, 3.0]))
@example(seed=0, kills=[60, 40], size=0.0)  # killed after two looks of three
def test_the_looks_are_the_same_in_any_order_and_after_any_kill(seed, kills, size):
    order = random.Random(seed)
    with empty_folder() as one, empty_folder() as other:
        whole = sequential(one)
        expected = conduct(whole, gain(size))
        again: list[TrialRequest] = []
        for stop in kills:
            again += conduct(sequential(other), gain(size), order=order, stop=stop)
        last = sequential(other)
        again += conduct(last, gain(size), order=order)
        assert names(again) == names(expected)
        assert last.looks == whole.looks
        assert last.select_for_test() == whole.select_for_test()
        restarted = sequential(other)
        assert restarted.is_finished
        assert restarted.select_for_test() == whole.select_for_test()


def test_runs_by_which_nothing_was_chosen_serve_in_the_confirmation(tmp_path):
    """One configuration a system, the last checkpoint: seeds 1 and 2 are tested, not trained again."""
    made: Study = study(
        seeds=(1, 2), variants=("BERT", "LS"), search={"n_configurations": {"LS": 1}}, confirm={"seeds": (1, 2, 101)}
    )
    register_plan(made, RESOLVED.model_digest, tmp_path)
    driven = scheduler(made, tmp_path)
    started = conduct(driven, gain(0.0))
    mine = [r for r in started if r.labels["variant"] == "LS"]
    trained = [r.labels["seed"] for r in mine if r.trial.action == "train"]
    tested = [(r.labels["seed"], r.labels["role"]) for r in mine if r.split == "test"]
    assert sorted(trained) == [1, 2, 101]
    assert sorted(tested) == [(1, "search"), (2, "search"), (101, "confirm")]
    assert len(started) == driven.n_trials
    assert report(tmp_path).table.seeds == 3


SERVING: dict[str, Any] = {"seeds": (1, 2), "variants": ("BERT", "LS"), "search": {"n_configurations": {"LS": 1}}}


def test_where_seeds_serve_no_default_is_confirmed_and_the_preview_counts_each_run_once(tmp_path):
    """The grid has one configuration, which is not the default: nothing was chosen, so no gain of a choice is asked."""
    search = {"n_configurations": {"LS": 1}, "epsilon": (0.3,)}
    made = study(
        **SERVING | {"search": search, "confirm": {"seeds": (1, 2, 101, 102)}, "output": {"folder": str(tmp_path)}}
    )
    preview = build_preview(made)
    register_plan(made, RESOLVED.model_digest, tmp_path)
    driven = scheduler(made, tmp_path)
    started = conduct(driven, gain(0.0))
    trained = [r for r in started if r.trial.action == "train"]
    assert preview["runs"] == len(trained)
    assert len(started) == driven.n_trials
    assert {r.labels["epsilon"] for r in trained if r.labels["variant"] == "LS"} == {0.3}
    own = report(tmp_path)
    assert own.confirmed == []
    assert "2 of them those of the search" in answer_study(own).line
    assert not any("incomplete" in note for note in [*list_warnings(own), *list_search_notes(own)])


def test_a_failed_run_with_a_seed_that_serves_is_tried_again(tmp_path):
    parts = SERVING | {"confirm": {"seeds": (1, 2, 101, 102), "group_size": 2}}
    conduct_with_a_failure(sequential(tmp_path, **parts), "LS", 2)
    last = sequential(tmp_path, **parts)
    conduct(last, gain(0.0))
    assert [look.seeds for look in last.looks.taken] == [2, 4]
