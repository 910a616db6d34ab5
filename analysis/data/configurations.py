"""Configurations (all seeds of one setting): which are complete, and which one represents a system."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.data.recorded_run import Run
from analysis.data.same_queries import check_same_queries
from analysis.data.study_results import Results
from records.plan import COLLECTIONS, Phase, Plan
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

Score = tuple[float, float | None]
"""Mean and sample standard deviation over seeds. The latter is None with one seed."""


@dataclass(frozen=True, eq=False)
class Configuration:
    """All runs of one setting.

    Attributes:
        runs: runs by seed, or under None for a system without seeds, such as BM25.
        other_settings: the other hyperparameters in which the system's configurations differ, and their values.
        pruned: True if racing gave it no more seeds. Its missing seeds are no fault, and it is never chosen.
        symbol: name of the strength in tables and figures.
    """

    id: str
    system: str
    strength: float | None
    switch: float | None
    runs: dict[int | None, Run]
    other_settings: tuple[tuple[str, Any], ...] = ()
    pruned: bool = False
    symbol: str = ""

    @property
    def label(self) -> str:
        """Name of the system, with the settings in parentheses."""
        return f"{self.system} ({self.description})" if self.description else self.system

    @property
    def description(self) -> str:
        """The settings in words; empty for a system without any."""
        smoothing = ((self.symbol, self.strength), ("switch", self.switch))
        return ", ".join([*(f"{name} {value:.3g}" for name, value in smoothing if value), *self.settings])

    @property
    def settings(self) -> list[str]:
        """The settings in `other_settings`, in words."""
        return [
            format_value(name, value) if name == "schedule" else f"{name.replace('_', ' ')} {format_value(name, value)}"
            for name, value in self.other_settings
        ]

    def expected_seeds(self, plan: Plan, phase: str) -> list[int | None]:
        """Return the seeds that it must have in a phase.

        These are the plan's seeds, or None for the one run of a system without seeds.
        """
        return [None] if set(self.runs) == {None} else list(plan.get_seeds(phase))

    def find_faults(self, plan: Plan, phase: str) -> list[str]:
        """Return why it is incomplete in a phase, seed by seed, in plain words; empty if it is complete."""
        reasons, split, metric = [], plan.get_split(phase), plan.get_metric(phase)
        for seed in self.expected_seeds(plan, phase):
            run, name = self.runs.get(seed), "its run" if seed is None else f"seed {seed}"
            if run is None:
                reasons.append(f"{name} is missing")
            elif not run.is_finished:
                reasons.append(f"{name} failed" + (f" ({run.summary['error']})" if run.summary.get("error") else ""))
            elif split not in run.files:
                reasons.append(f"{name} has no {split} scores")
            elif np.isnan(run.evaluate_queries(split, metric).to_numpy()).any():
                reasons.append(f"{name} has NaN scores")
        return reasons

    def evaluate_queries(self, plan: Plan, phase: str, metric: str | None = None) -> Floats | None:
        """Return the metric of each query for each seed, or None if the configuration is incomplete.

        Args:
            plan: plan of the study.
            phase: a phase, the label of a collection, or `COLLECTIONS` for all of them together.
            metric: name of the metric. If None, that of the phase.

        Returns:
            (seeds, queries) values, seeds in the plan's order, queries in sorted order. For a metric of sentence
                pairs, (seeds, distinct pairs) of the pairs that the metric covers. For all collections together, see
                `weight_collections`.
        """
        phases = plan.list_collections() if phase == COLLECTIONS else [phase]
        if any(self.find_faults(plan, own) for own in phases):
            return None
        runs = [self.runs[seed] for seed in self.expected_seeds(plan, phase)]

        def evaluate(own: str) -> list["pd.Series[float]"]:
            return [run.evaluate_queries(plan.get_split(own), metric or plan.get_metric(own)) for run in runs]

        if phase == COLLECTIONS:
            return weight_collections([pd.concat(evaluate(own), axis=1) for own in phases]).to_numpy().T
        return np.stack([values.to_numpy() for values in evaluate(phase)])

    def is_tested(self, plan: Plan) -> bool:
        """Return whether any of its runs has test scores."""
        return any(plan.test_split in run.files for run in self.runs.values())

    def lacks_runs(self, plan: Plan) -> bool:
        """Return whether it is incomplete in a phase; one that racing pruned is not."""
        phases: tuple[Phase, ...] = ("search", "test") if self.is_tested(plan) else ("search",)
        return not self.pruned and any(self.find_faults(plan, phase) for phase in phases)


def weight_collections(values: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return one row a query of all collections, with the mean of the collections' means as mean.

    A query counts more in a small collection than in a large one. One that several collections have, as with several
    first stages, is one query, so that the same draw of queries is not counted twice.

    Args:
        values: metric of each query of a collection, one row a query_id, one column a seed.

    Example:
        >>> small, large = pd.DataFrame({1: {"a": 1.0}}), pd.DataFrame({1: {"b": 0.2, "c": 0.4}})
        >>> weight_collections([small, large]).round(3).to_dict()
        {1: {'a': 1.5, 'b': 0.15, 'c': 0.3}}
    """
    count = len(set().union(*(own.index for own in values)))
    weighted = [own * (count / (len(values) * len(own))) for own in values]
    return pd.concat(weighted).groupby(level=0).sum()


def evaluate_run(plan: Plan, run: Run) -> Floats | None:
    """Return the test scores of a run, (queries,); None without any, and if one is NaN."""
    if not run.is_finished or plan.test_split not in run.files:
        return None
    values = np.asarray(run.evaluate_queries(plan.test_split, plan.metric), np.float64)
    return None if np.isnan(values).any() else values


def collect_configurations(results: Results) -> list[Configuration]:
    """Return every configuration that has a run.

    They are in the plan's order of systems, then in order of strength, switch point and id. A scoring run belongs to
    no configuration, although it shares its settings with the baseline.

    Raises:
        UserError: if two runs have the same configuration and seed, or the runs do not rank the same queries.
    """
    plan = results.plan
    for split in (plan.search_split, plan.test_split, *plan.list_collections()):
        check_same_queries(plan, [run for run in results.runs if run.is_finished and split in run.files], split)
    grouped: dict[str, dict[int | None, Run]] = {}
    for run in results.runs:
        if run.is_difficulty_scorer:
            continue
        group = grouped.setdefault(run.config["configuration_id"], {})
        if run.seed in group:
            raise UserError(f"run {run.id}", f"the configuration and seed of {group[run.seed].id}", "one run of each")
        group[run.seed] = run
    configs = {key: next(iter(runs.values())).config for key, runs in grouped.items()}
    names = [name for name in plan.hyperparameters if name not in (plan.strength, "switch")]
    varied, pruned = _find_varied(list(configs.values()), names), count_seeds_of_pruned(results)
    configurations = []
    for key, runs in grouped.items():
        config = configs[key]
        others = [(name, config.get(name)) for name in names if (config["variant"], name) in varied]
        named_others = tuple((name, value) for name, value in others if value is not None)
        settings = config["variant"], config.get(plan.strength), config.get("switch")
        configurations.append(Configuration(key, *settings, runs, named_others, key in pruned, plan.symbol))
    rank = {name: position for position, name in enumerate(plan.all_systems)}
    return sorted(
        configurations,
        key=lambda c: (rank.get(c.system, len(rank)), c.system, c.strength or 0.0, c.switch or 0.0, c.id),
    )


def count_seeds_of_pruned(results: Results) -> dict[str, int]:
    """Return how many seeds each pruned configuration had, by id."""
    searches = results.search.systems.values() if results.search else ()
    return {p.configuration_id: len(p.seeds) for search in searches for p in search.get_proposals("dropped")}


def choose_configurations(results: Results, configurations: list[Configuration]) -> dict[str, Configuration | None]:
    """Return the configuration that represents each system of the plan: the one with test scores.

    If several have test scores, the only complete one is chosen. A system without test scores has None. Pruned
    configurations are ignored.

    Raises:
        UserError: if several configurations of a system are complete on the test split. To choose now would be to
            choose by test scores.
    """
    plan, best = results.plan, dict[str, Configuration | None]()
    tested: dict[str, list[Configuration]] = {}
    for configuration in configurations:
        if configuration.is_tested(plan) and not configuration.pruned:
            tested.setdefault(configuration.system, []).append(configuration)
    for system in plan.all_systems:
        candidates = tested.get(system, [])
        complete = [c for c in candidates if not c.find_faults(plan, "test")]
        if len(complete) > 1 or (not complete and len(candidates) > 1):
            labels = ", ".join(f"{c.label} [{c.id}]" for c in complete or candidates)
            raise UserError(
                f"system {system}", f"{plan.test_split} scores of {labels}", "those of the one chosen configuration"
            )
        best[system] = next(iter(complete or candidates), None)
    return best


def describe_dev_choice(plan: Plan, configurations: list[Configuration]) -> str:
    """Describe what was chosen by scores on the search split; empty if nothing was.

    A configuration is chosen where a system has several with seeds of the search, a checkpoint where the plan takes the
    best evaluation of a run.
    """
    searched = [
        c.system for c in configurations if c.system in plan.systems and not c.runs.keys().isdisjoint(plan.seeds)
    ]
    training = (plan.model_extra or {}).get("settings", {}).get("training", {})
    parts = ["configurations"] if len(searched) > len({*searched}) else []
    parts += ["checkpoints"] if training.get("checkpoint", "last") != "last" else []
    return " and ".join(parts)


def format_value(name: str, value: float | str) -> str:
    """Format the value of a hyperparameter; names of pacing functions and scores are not changed."""
    if isinstance(value, str):
        return value.replace("_", "-") if name == "schedule" else value
    return f"{value:g}"


def mean_and_std(values: Floats | None) -> Score | None:
    """Return mean and standard deviation over seeds of (seeds, queries) values; None for None."""
    if values is None:
        return None
    seeds = values.mean(axis=1)
    return float(seeds.mean()), float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None


def format_score(score: Score | None, decimals: int = 4) -> str:
    """Format mean and standard deviation, or a dash."""
    if score is None:
        return "-"
    return f"{score[0]:.{decimals}f}" + (f" ± {score[1]:.{decimals}f}" if score[1] is not None else "")


def _find_varied(configs: list[dict[str, Any]], names: list[str]) -> set[tuple[str, str]]:
    """Return pairs of a system and one of these hyperparameters in which its configurations differ."""
    values: dict[tuple[str, str], set[Any]] = {}
    for config in configs:
        for name in names:
            values.setdefault((config["variant"], name), set()).add(config.get(name))
    return {pair for pair, several in values.items() if len(several) > 1}
