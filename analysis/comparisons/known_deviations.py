"""Standard deviations of studies that were run, to plan a study without a pilot.

They are those of one system's scores, beyond what all systems share. The seeds' is the one to plan with.
`docs.scripts.deviations` makes the file from the kept studies.
"""

import csv
from pathlib import Path
from typing import NamedTuple

from analysis.stats.variance_components import VarianceComponents

FILE = Path(__file__).with_suffix(".csv")


class KnownDeviations(NamedTuple):
    """Deviations of the systems of one study.

    Attributes:
        metric: metric of the scores.
        seed: standard deviation between seeds.
        query: standard deviation between queries.
        rest: standard deviation of the rest.
        seeds: number of seeds that they are estimated from.
        queries: number of queries that they are estimated from.
        source: name of the study.
    """

    metric: str
    seed: float
    query: float
    rest: float
    seeds: int
    queries: int
    source: str

    @property
    def components(self) -> VarianceComponents:
        """Variance components to plan with."""
        return VarianceComponents(self.seed**2, self.query**2, self.rest**2)


def read_known_deviations() -> dict[str, KnownDeviations]:
    """Return the deviations by the name of the task.

    Example:
        >>> read_known_deviations()["docstrings"].metric
        'R10@1'
    """
    with FILE.open(encoding="utf-8", newline="") as file:
        return {
            row["task"]: KnownDeviations(
                metric=row["metric"],
                seed=float(row["seed"]),
                query=float(row["query"]),
                rest=float(row["rest"]),
                seeds=int(row["seeds"]),
                queries=int(row["queries"]),
                source=row["source"],
            )
            for row in csv.DictReader(file)
        }
