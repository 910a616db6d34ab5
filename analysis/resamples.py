"""The bootstrap beside the headline test: of every comparison by a correlation, over resampled pairs and seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.bootstrap import Array, difference, resampled
from analysis.configurations import Configuration
from analysis.families import Comparison
from analysis.plan import Plan
from analysis.run import Run
from analysis.scores import subsets
from trainables.metrics import PERCENT, measure, set_of


def beside(plan: Plan, chosen: Mapping[str, Configuration | None], compared: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons, those that are complete with their bootstrap; its intervals are Bonferroni's for the family."""
    named = {name for c in compared for name in (c.system, c.baseline)}
    complete = {name: c for name, c in chosen.items() if name in named and c and not c.faults(plan, "test")}
    lists = _Lists(plan, complete)
    return [
        c
        if c.difference is None
        else replace(
            c,
            bootstrap=difference(
                lists.correlations(c.system, c.metric),
                lists.correlations(c.baseline, c.metric),
                1 - plan.alpha / c.comparisons,
            ),
        )
        for c in compared
    ]


class _Lists:
    """Resampled correlations of all systems' runs, each list of pairs (a set, or a subset) resampled once."""

    def __init__(self, plan: Plan, complete: Mapping[str, Configuration]) -> None:
        self._split = plan.test_split
        self._runs, self._rows = list[Run](), dict[str, slice]()
        for name, c in complete.items():
            own = [c.runs[seed] for seed in c.expected(plan, "test")]
            self._rows[name] = slice(len(self._runs), len(self._runs) + len(own))
            self._runs += own
        self._known: dict[str, Array] = {}

    def correlations(self, system: str, metric: str) -> Array:
        """(seeds, draws) of a system; the mean over the sets' where the metric is."""
        about = measure(metric).similarity
        assert about is not None
        names = [about.place] if about.place else self._sets()
        found: Array = PERCENT * np.mean([self._of(name)[self._rows[system]] for name in names], axis=0)
        return found

    def _sets(self) -> list[str]:
        return list(dict.fromkeys(map(set_of, subsets(self._runs[0].files[self._split], self._split))))

    def _of(self, name: str) -> Array:
        """(runs, draws) of a list of pairs."""
        if name not in self._known:
            graded = [run.graded(self._split, f"STS/{name}") for run in self._runs]
            self._known[name] = resampled(np.stack([scores for scores, _ in graded]), graded[0][1], name)
        return self._known[name]
