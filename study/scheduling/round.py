"""A round of proposals: which of its runs are due, and which configurations it drops on the way."""

from collections.abc import Iterator, Sequence

import numpy as np

from study.records.run_store import Ledger
from study.scheduling.racing import FIRST, left_behind
from study.scheduling.trials import Configuration
from trainables.metrics import MINIMISED
from trainables.specs.base import Specification
from trainables.utils.arrays import Floats


class Round:
    """Configurations that are run together.

    Args:
        configurations: in the order of proposal.
        race: whether seeds are started in rounds, and configurations that are behind get no more of them.

    Attributes:
        dropped: by the configuration's id, how many seeds a dropped one got.
    """

    def __init__(self, configurations: Sequence[Configuration], race: bool) -> None:
        self.configurations = list(configurations)
        self.dropped: dict[str, int] = {}
        self._seeds = len(configurations[0].runs)
        self._granted = min(FIRST, self._seeds) if race else self._seeds

    def due(self) -> Iterator[tuple[Configuration, Specification]]:
        """The runs that may run by now, done or not."""
        for item in self.configurations:
            for run in item.runs[: self.dropped.get(item.id, self._granted)]:
                yield item, run

    def advance(self, complete: Sequence[Configuration], ledger: Ledger, metric: str, rivals: int) -> bool:
        """Whether there is more to run, once all that is due has ended; may drop configurations.

        Args:
            complete: configurations of earlier rounds that have all their seeds.
            ledger: of the records.
            metric: by which configurations are compared.
            rivals: other configurations that any one may be compared with.
        """
        if self._granted == self._seeds:
            return False
        own = {item.id: item for item in self.configurations if item.id not in self.dropped}
        sign = -1 if metric in MINIMISED else 1
        found = {
            key: sign * values
            for key, item in {**{item.id: item for item in complete}, **own}.items()
            if (values := per_query(item, ledger, metric, self._granted)) is not None
        }
        for key in left_behind(found, own, self._seeds, rivals):
            self.dropped[key] = self._granted
        self._granted += 1
        return len(self.dropped) < len(self.configurations)


def per_query(item: Configuration, ledger: Ledger, metric: str, seeds: int) -> Floats | None:
    """(seeds, queries) the metric with the first `seeds` seeds on the development set; None where one is missing."""
    runs = item.runs[:seeds]
    if not all(ledger.finished(run.id, "dev") for run in runs):
        return None
    return np.stack([ledger.per_query(run.id, metric) for run in runs])


def standing(
    item: Configuration, seeds: int, complete: Sequence[Configuration], ledger: Ledger, metric: str
) -> float | None:
    """What a dropped configuration's mean would be if its missing seeds were as much easier or harder than its own as
    they were for the complete configurations."""
    own = per_query(item, ledger, metric, seeds)
    if own is None:
        return None
    shifts = []
    for other in complete:
        values = per_query(other, ledger, metric, len(other.runs))
        if values is not None:
            shifts.append(float(values.mean() - values[:seeds].mean()))
    return float(own.mean()) + (sum(shifts) / len(shifts) if shifts else 0.0)
