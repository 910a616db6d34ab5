"""A race over several rounds against an oracle that replays it from the files: who is dropped when, what is told.

No model is trained: scores are written by hand, and some runs fail.
"""

import random
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from records import run_record as record
from records import search_log as searchlog
from study.config.schema import Study
from study.scheduling import search_loop
from study.scheduling.racing import FIRST_ROUND_SEEDS, is_worse
from study.scheduling.search_loop import SystemSearch
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import PlannedConfiguration
from tests.study.driving import STUDY, Labels, decisions, drive, quality
from tests.study.scored import CANDIDATES, QUERIES, draw, scheduler, study, trained, write
from trainables.utils.arrays import Floats

METRICS = {"MAP": 1, "position": -1}
"""Name -> 1 where more is better."""
SEEDS, PARALLEL = 5, 3


def racing(metric: str) -> Study:
    """A search of rounds of three; the last of each has fewer."""
    search = {"pruning": "race", "round_size": PARALLEL, "n_configurations": {"LS": 4, "T-LS": 8}}
    return study(variants=("BERT", "LS", "T-LS"), search=search, analysis={"metric": metric})


def fails(salt: int, labels: Labels) -> bool:
    """One searched run in forty, of the last seeds one in seven: what leads at first may not be complete later."""
    share = 1 / 7 if (labels["seed"] or 0) > FIRST_ROUND_SEEDS else 1 / 40
    return labels["variant"] != "BERT" and draw("fails", salt, labels["specification_id"]).random() < share


def conduct(made: StudyScheduler, salt: int) -> dict[str, dict[str, list[int]]]:
    """Runs the scheduler, one request at a time; returns the seeds trained, by system and configuration.

    A configuration is good or bad by chance, and a little more so with some seeds.
    """

    def quality(labels: Labels) -> float:
        own, seed = (draw(salt, labels["configuration_id"], name).normal() for name in (None, labels["seed"]))
        return float(1.5 + 0.6 * own + 0.2 * seed)

    started = []
    while (request := made.pop_request()) is not None:
        started.append(request)
        if request.split == "dev" and fails(salt, request.labels):
            failed = {"id": request.labels["specification_id"], "state": "failed", "summary": {"error": "boom"}}
            record.write_run_record(made.folder, request.split, failed, None)
        else:
            write(made.folder, request, quality)
        made.mark_ended(request)
    assert made.is_finished
    return {name: trained(started, name) for name in made.searches}


def values(folder: Path, run_id: str, metric: str) -> np.ndarray | None:
    """(queries,) the metric of a run, straight from the file; None where it failed."""
    if not record.is_run_finished(folder, run_id):
        return None
    scores = pd.read_parquet(record.get_scores_path(folder, run_id))["score"].to_numpy().reshape(QUERIES, CANDIDATES)
    ranks = 1.0 + (scores[:, 1:] > scores[:, :1]).sum(axis=1)  # of the relevant document, the first
    return 1 / ranks if metric == "MAP" else ranks


class Replay:
    """Expected result of a search: the oracle.

    Attributes:
        dropped: by configuration, after how many seeds.
        told: by configuration, what the sampler should have been told.
        seen: what happened, counted.
    """

    def __init__(self, variant_search: SystemSearch, folder: Path, metric: str) -> None:
        self._sign = METRICS[metric]
        self._runs = {
            run.id: values(folder, run.id, metric) for item in variant_search.configurations for run in item.runs
        }
        self.dropped, self.told, self.seen = dict[str, int](), dict[str, float | None](), Counter[str]()
        items, complete = variant_search.configurations, list[PlannedConfiguration]()
        for start in range(0, len(items), PARALLEL):
            batch = items[start : start + PARALLEL]
            self._look(batch, complete, variant_search.n_requested - 1)
            complete += [
                item for item in batch if item.id not in self.dropped and self._values(item, SEEDS) is not None
            ]
            for item in batch:
                self.told[item.id] = self._telling(item, complete)

    def _values(self, item: PlannedConfiguration, seeds: int) -> np.ndarray | None:
        """(seeds, queries), more being better; None where a run failed."""
        rows = [found for run in item.runs[:seeds] if (found := self._runs[run.id]) is not None]
        return self._sign * np.stack(rows) if len(rows) == seeds else None

    def _look(self, batch: list[PlannedConfiguration], earlier: list[PlannedConfiguration], rivals: int) -> None:
        for seeds in range(FIRST_ROUND_SEEDS, SEEDS):
            alive = [item for item in batch if item.id not in self.dropped]
            every = [(item, found) for item in [*earlier, *alive] if (found := self._values(item, seeds)) is not None]
            if not alive or not every:
                return
            best, leading = max(every, key=lambda pair: pair[1].mean())
            for item, found in every:
                if item in alive and item is not best and is_worse(found, leading, SEEDS, rivals):
                    self.dropped[item.id] = seeds
                    self.seen[f"dropped after {seeds}"] += 1
                    self.seen["dropped for one of an earlier round"] += best in earlier

    def _telling(self, item: PlannedConfiguration, complete: list[PlannedConfiguration]) -> float | None:
        got = self.dropped.get(item.id, SEEDS)
        own = self._values(item, got)
        if own is None:
            self.seen["failed"] += 1
            return None
        whole = [found for other in complete if (found := self._values(other, SEEDS)) is not None]
        easier = [found.mean() - found[:got].mean() for found in whole] if got < SEEDS else []
        self.seen["told of several others"] += len(easier) > 1
        self.seen["told of no other"] += got < SEEDS and not easier
        return self._sign * float(own.mean() + (np.mean(easier) if easier else 0.0))


@pytest.mark.parametrize("metric", METRICS)
def test_a_race_over_several_rounds_is_what_its_records_say(metric, tmp_path):
    seen: Counter[str] = Counter()
    for salt in range(6):
        folder = tmp_path / str(salt)
        made = scheduler(racing(metric), folder)
        seeds = conduct(made, salt)
        for name, variant_search in made.searches.items():
            replay = Replay(variant_search, folder, metric)
            seen += replay.seen
            assert variant_search.pruned == replay.dropped
            for key, reported in variant_search.reported.items():
                expected = replay.told[key]
                assert reported == (None if expected is None else pytest.approx(expected))
                assert sorted(seeds[name][key]) == [*range(1, replay.dropped.get(key, SEEDS) + 1)]  # each once
            assert len(variant_search.reported) == len(replay.told) == variant_search.n_requested
    wanted = ("dropped after 3", "dropped after 4", "dropped for one of an earlier round", "told of several others")
    assert all(seen[what] for what in (*wanted, "failed")), seen


@pytest.mark.parametrize("parallel", [1, 2, 3])
@pytest.mark.parametrize("sampler", ["tpe", "qmc", "grid"])
def test_a_search_that_goes_on_proposes_what_it_would_have_proposed(sampler, parallel, tmp_path):
    """After a stop at any point, and where what failed at first is told otherwise later."""
    search = STUDY.search.model_copy(update={"sampler": sampler, "round_size": parallel})
    made = STUDY.model_copy(update={"search": search})

    def start(folder: Path) -> StudyScheduler:
        return scheduler(made, folder, previous_log=searchlog.read_searches(folder))

    def moody(labels: Labels) -> float | None:
        return None if draw("moody", labels["specification_id"]).random() < 0.2 else quality(labels)

    whole = start(tmp_path / "whole")
    drive(whole)
    for case in range(2):
        folder, rng = tmp_path / str(case), random.Random(case)
        stopped = start(folder)
        drive(stopped, metric=moody if case % 2 else quality, order=rng, stop_after=rng.randrange(2, 25))
        searchlog.write_search_log(folder, stopped.build_search_log())
        last = start(folder)
        drive(last, order=rng)
        assert decisions(last) == decisions(whole)
        assert last.build_search_log() == whole.build_search_log()


def test_a_round_that_was_begun_is_made_again_although_the_budget_is_exhausted(tmp_path):
    whole = scheduler(STUDY, tmp_path)
    drive(whole)
    searchlog.write_search_log(tmp_path, whole.build_search_log())
    for run in (run for item in whole.configurations if item.role == "search" for run in item.runs):
        shutil.rmtree(tmp_path / "runs" / run.id)
    log = searchlog.read_searches(tmp_path)
    last = scheduler(STUDY, tmp_path, previous_log=log, find_exhausted_budget=lambda: "search.hours")
    drive(last)
    assert decisions(last) == decisions(whole)


def test_a_search_that_was_stopped_does_not_go_on_after_the_test(tmp_path):
    answers = iter([None] * 3)
    first = scheduler(STUDY, tmp_path, find_exhausted_budget=lambda: next(answers, "search.hours"))
    drive(first)
    searchlog.write_search_log(tmp_path, first.build_search_log())
    last = scheduler(STUDY, tmp_path, previous_log=searchlog.read_searches(tmp_path))  # its clock was lost
    drive(last)
    assert decisions(last) == decisions(first)
    assert [it.stopped_by for it in last.searches.values()] == [it.stopped_by for it in first.searches.values()]
    assert any(it.stopped_by for it in first.searches.values())


def test_a_round_is_judged_among_all_complete_ones_and_by_all_rivals_of_the_search(tmp_path, monkeypatch):
    """The first proposal, the untuned default, among them; rivals are all that were asked for, come or to come."""
    asked, find_pruned = list[tuple[str, set[str], set[str], int]](), search_loop.find_pruned

    def watched(found: Mapping[str, Floats], candidates: Mapping[str, Any], seeds: int, rivals: int) -> set[str]:
        (name,) = {item.name for item in candidates.values()}
        variant_search, n_started = made.searches[name], len(next(iter(found.values()), ()))
        whole = {
            item.id
            for item in variant_search.configurations
            if item.id not in variant_search.pruned
            and all(made.store.is_finished(run.id) for run in item.runs[: n_started if item.id in candidates else None])
        }
        asked.append((name, {*found}, whole if found else set(), rivals))
        return find_pruned(found, candidates, seeds, rivals)

    monkeypatch.setattr(search_loop, "find_pruned", watched)
    for salt in range(5):  # in some of these races more configurations are complete than one round has
        made = scheduler(racing("MAP"), tmp_path / str(salt))
        conduct(made, salt)
    assert all(found == whole for _, found, whole, _ in asked)
    assert {(name, rivals) for name, _, _, rivals in asked} == {("LS", 3), ("T-LS", 7)}
    assert any(len(whole) > PARALLEL for _, _, whole, _ in asked)
