"""The bootstrap beside the headline test: of every comparison by a correlation, over resampled pairs and seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.data.configurations import Configuration
from analysis.data.plan import Plan
from analysis.data.run import Run
from analysis.stats.bootstrap import difference, resampled
from analysis.stats.comparison import Comparison
from trainables.metrics import PERCENT, measure, set_of
from trainables.utils.arrays import Floats


def beside(plan: Plan, chosen: Mapping[str, Configuration | None], compared: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons, those that are complete with their bootstrap; its intervals are Bonferroni's for the family."""
    named = {name for c in compared for name in (c.system, c.baseline)}
    complete = {name: c for name, c in chosen.items() if name in named and c and not c.faults(plan, "test")}
    judged = [c for c in compared if c.difference is not None]
    if not judged:
        return list(compared)
    lists = _Lists(plan, complete, dict.fromkeys(c.metric for c in judged))
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
    """Resampled correlations of all systems' runs, by every list of pairs (a set, or a subset) that a metric is of."""

    def __init__(self, plan: Plan, complete: Mapping[str, Configuration], metrics: Iterable[str]) -> None:
        runs, self._rows = list[Run](), dict[str, slice]()
        for name, c in complete.items():
            own = [c.runs[seed] for seed in c.expected(plan, "test")]
            self._rows[name] = slice(len(runs), len(runs) + len(own))
            runs += own
        graded = [run.graded(plan.test_split) for run in runs]
        first = graded[0]
        subsets = np.array(first.subsets, dtype=object)
        sets = np.array([set_of(name) for name in first.subsets], dtype=object)
        self._sets = list(dict.fromkeys(sets))
        self._named = {metric: [_place(metric)] if _place(metric) else self._sets for metric in metrics}
        names = list(dict.fromkeys(name for own in self._named.values() for name in own))
        lists = [np.flatnonzero((sets == name) | (subsets == name)) for name in names]
        scores = np.stack([one.scores for one in graded])
        self._known = dict(zip(names, resampled(scores, first.grades, first.units, lists), strict=True))

    def correlations(self, system: str, metric: str) -> Floats:
        """(seeds, draws) of a system; the mean over the sets' where the metric is."""
        own = [self._known[name][self._rows[system]] for name in self._named[metric]]
        found: Floats = PERCENT * np.mean(own, axis=0)
        return found


def _place(metric: str) -> str:
    about = measure(metric).similarity
    assert about is not None
    return about.place
