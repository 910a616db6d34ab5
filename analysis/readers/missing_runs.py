"""Counts the runs of a study that a W&B server lacks, as far as the plan and the search log name them."""

from typing import NamedTuple

from analysis.data.configurations import count_seeds_of_pruned
from analysis.data.results import Results
from analysis.data.run import Run
from records.plan import Plan


class MissingRuns(NamedTuple):
    """Counts of runs without a complete result.

    Attributes:
        absent: number of runs of the plan that are not there.
        unfinished: number of runs that neither finished nor failed.
        unscored: number of finished runs that lack scores.
        systems: systems of the plan without any run. Nothing tells how many runs they have.
    """

    absent: int
    unfinished: int
    unscored: int
    systems: tuple[str, ...]

    def describe(self) -> str:
        """Describe the counts in words; empty if nothing is missing."""
        counts = {"missing": self.absent, "unfinished": self.unfinished, "without scores": self.unscored}
        return ", ".join(
            [*(f"{count} {kind}" for kind, count in counts.items() if count), *(f"all of {s}" for s in self.systems)]
        )


def count_missing_runs(results: Results) -> MissingRuns:
    """Count the runs that a study lacks.

    Seeds that follow a failed one, and those of pruned configurations, are not expected.
    """
    plan, logs = results.plan, results.search.systems if results.search else {}
    known_runs = [*results.runs, *results.unfinished]
    runs = [
        run
        for run in known_runs
        if {"configuration_id", "variant"} <= run.config.keys() and not run.is_difficulty_scorer
    ]
    by_configuration: dict[str, dict[int | None, Run]] = {}
    by_system: dict[str, set[str]] = {}
    for run in runs:
        key = run.config["configuration_id"]
        by_configuration.setdefault(key, {})[run.seed] = run
        by_system.setdefault(run.config["variant"], set()).add(key)
    chosen = {run.config["configuration_id"] for run in runs if plan.test_split in run.files}
    chosen |= {log.winner for log in logs.values() if log.winner}
    chosen |= {key for name, keys in by_system.items() if len(keys) == 1 and name not in logs for key in keys}
    pruned = count_seeds_of_pruned(results)
    proposals = [proposal for log in logs.values() for proposal in log.get_proposals("complete")]
    absent = sum(len(p.seeds) for p in proposals if p.configuration_id not in by_configuration)
    absent += plan.scorer_seed is not None and not any(run.is_difficulty_scorer for run in known_runs)
    unscored = 0
    for key, by_seed in by_configuration.items():
        unscored += sum(run.is_finished and _lacks_scores(plan, run, key in chosen) for run in by_seed.values())
        if key not in pruned and not any(run.summary.get("state") == "failed" for run in by_seed.values()):
            absent += len(_list_expected_seeds(plan, by_seed, key in chosen) - by_seed.keys())
    systems = tuple(name for name in plan.all_systems if name not in {*by_system, *logs})
    return MissingRuns(absent, len(results.unfinished), unscored, systems)


def _list_expected_seeds(plan: Plan, runs: dict[int | None, Run], is_chosen: bool) -> set[int | None]:
    """Return the seeds that a configuration must have, or None alone for a system without seeds."""
    return {None} if set(runs) == {None} else {*plan.seeds, *(plan.get_seeds("test") if is_chosen else ())}


def _lacks_scores(plan: Plan, run: Run, is_chosen: bool) -> bool:
    is_for_test = is_chosen and (run.seed is None or run.seed in plan.get_seeds("test"))
    return plan.search_split not in run.files or (is_for_test and plan.test_split not in run.files)
