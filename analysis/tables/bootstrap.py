"""The bootstrap beside the headline test: of every comparison by a correlation, over resampled pairs and seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.data.configurations import Configuration
from analysis.data.plan import Plan
from analysis.data.run import Run
from analysis.stats.bootstrap import difference, resample_correlations
from analysis.stats.comparison import Comparison
from trainables.metrics import PERCENT, get_measure, get_set_name
from trainables.utils.arrays import Floats


def add_bootstrap(
    plan: Plan, chosen: Mapping[str, Configuration | None], compared: Sequence[Comparison]
) -> list[Comparison]:
    """The comparisons, those that are complete with their bootstrap; its intervals are Bonferroni's for the family."""
    named = {name for c in compared for name in (c.system, c.baseline)}
    complete = {name: c for name, c in chosen.items() if name in named and c and not c.find_faults(plan, "test")}
    judged = [c for c in compared if c.difference is not None]
    if not judged:
        return list(compared)
    lists = _ResampledCorrelations(plan, complete, dict.fromkeys(c.metric for c in judged))
    return [
        c
        if c.difference is None
        else replace(
            c,
            bootstrap=difference(
                lists.get_correlations(c.system, c.metric),
                lists.get_correlations(c.baseline, c.metric),
                1 - plan.alpha / c.comparisons,
            ),
        )
        for c in compared
    ]


class _ResampledCorrelations:
    """Resampled correlations of all systems' runs, by every list of pairs (a set, or a subset) that a metric is of."""

    def __init__(self, plan: Plan, complete: Mapping[str, Configuration], metrics: Iterable[str]) -> None:
        runs, self._rows = list[Run](), dict[str, slice]()
        for name, c in complete.items():
            own = [c.runs[seed] for seed in c.expected_seeds(plan, "test")]
            self._rows[name] = slice(len(runs), len(runs) + len(own))
            runs += own
        graded = [run.read_graded_pairs(plan.test_split) for run in runs]
        first = graded[0]
        subsets = np.array(first.subsets, dtype=object)
        sets = np.array([get_set_name(name) for name in first.subsets], dtype=object)
        self._sets = list(dict.fromkeys(sets))
        self._named = {metric: [_get_set_name(metric)] if _get_set_name(metric) else self._sets for metric in metrics}
        names = list(dict.fromkeys(name for own in self._named.values() for name in own))
        lists = [np.flatnonzero((sets == name) | (subsets == name)) for name in names]
        scores = np.stack([one.scores for one in graded])
        self._known = dict(zip(names, resample_correlations(scores, first.grades, first.units, lists), strict=True))

    def get_correlations(self, system: str, metric: str) -> Floats:
        """(seeds, draws) of a system; the mean over the sets' where the metric is."""
        own = [self._known[name][self._rows[system]] for name in self._named[metric]]
        found: Floats = PERCENT * np.mean(own, axis=0)
        return found


def _get_set_name(metric: str) -> str:
    about = get_measure(metric).sts_correlation
    assert about is not None
    return about.scope
