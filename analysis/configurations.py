"""What is compared: configurations (all seeds of one setting), which are complete, which one judges a variant."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.results import Plan, Results, Run, same_queries
from trainables.errors import UserError


@dataclass(frozen=True)
class Configuration:
    """All runs of one setting; `runs` by seed, or under None for a system without one, such as BM25."""

    id: str
    system: str
    epsilon: float | None
    switch: float | None
    runs: dict[int | None, Run]

    @property
    def label(self) -> str:
        parts = [f"{name} {value:.3g}" for name, value in (("ε", self.epsilon), ("switch", self.switch)) if value]
        return " ".join([self.system, *([f"({', '.join(parts)})"] if parts else [])])

    def expected(self, plan: Plan) -> list[int | None]:
        """The seeds that it must have: the plan's, or the one run of a system without seeds."""
        return [None] if set(self.runs) == {None} else list(plan.seeds)

    def faults(self, plan: Plan, split: str) -> list[str]:
        """Why it is incomplete on a split, seed by seed, in plain words; empty if it is complete."""
        reasons = []
        for seed in self.expected(plan):
            run, name = self.runs.get(seed), "its run" if seed is None else f"seed {seed}"
            if run is None:
                reasons.append(f"{name} is missing")
            elif not run.finished:
                reasons.append(f"{name} failed" + (f" ({run.summary['error']})" if run.summary.get("error") else ""))
            elif split not in run.files:
                reasons.append(f"{name} has no {split} scores")
            elif run.per_query(split, plan.metric).isna().any():
                reasons.append(f"{name} has NaN scores")
        return reasons

    def values(self, plan: Plan, split: str) -> NDArray[np.float64] | None:
        """(seeds, queries) metric in the plan's order of seeds and sorted order of queries; None if incomplete."""
        if self.faults(plan, split):
            return None
        return np.stack([self.runs[seed].per_query(split, plan.metric).to_numpy() for seed in self.expected(plan)])


def configurations(results: Results) -> list[Configuration]:
    """Every configuration that has a run, in the plan's order of systems, then by epsilon, switch and id.

    Raises:
        UserError: if two runs share configuration and seed, or the runs do not rank the same queries.
    """
    plan = results.plan
    for split in (plan.search_split, plan.test_split):
        same_queries(plan, [run for run in results.runs if run.finished and split in run.files], split)
    grouped: dict[str, dict[int | None, Run]] = {}
    for run in results.runs:
        group = grouped.setdefault(run.config["configuration_id"], {})
        if run.seed in group:
            raise UserError(f"run {run.id}", f"the configuration and seed of {group[run.seed].id}", "one run of each")
        group[run.seed] = run
    found = []
    for key, runs in grouped.items():
        config = next(iter(runs.values())).config
        found.append(Configuration(key, config["variant"], config.get("epsilon"), config.get("switch"), runs))
    rank = {name: position for position, name in enumerate(plan.all_systems)}
    return sorted(
        found, key=lambda c: (rank.get(c.system, len(rank)), c.system, c.epsilon or 0.0, c.switch or 0.0, c.id)
    )


def chosen(results: Results, found: list[Configuration]) -> dict[str, Configuration | None]:
    """The configuration that each system of the plan is judged by: the one with test scores.

    With test scores of several, the only complete one counts; a system without test scores has None.

    Raises:
        UserError: if several configurations of a system are complete on the test split: choosing now would be
            choosing by test scores.
    """
    split, best = results.plan.test_split, dict[str, Configuration | None]()
    for system in results.plan.all_systems:
        tested = [c for c in found if c.system == system and any(split in run.files for run in c.runs.values())]
        complete = [c for c in tested if not c.faults(results.plan, split)]
        if len(complete) > 1 or (not complete and len(tested) > 1):
            labels = ", ".join(f"{c.label} [{c.id}]" for c in complete or tested)
            raise UserError(f"system {system}", f"{split} scores of {labels}", "those of the one chosen configuration")
        best[system] = next(iter(complete or tested), None)
    return best
