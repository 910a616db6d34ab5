"""What was declared before the first test score existed: the plan, as the report reads it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Phase = Literal["search", "confirmed", "test"]
"""What scores are for: choosing a configuration, judging that choice with fresh seeds, comparing the chosen."""


class Family(BaseModel):
    """Comparisons that are corrected together: pairs (system, baseline)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    correction: str = "bonferroni"
    comparisons: tuple[tuple[str, str], ...]


class Budgets(BaseModel):
    """What a search may spend; None: no limit."""

    model_config = ConfigDict(frozen=True, extra="allow")

    hours: float | None = None
    gpu_hours: float | None = None


class Plan(BaseModel):
    """What was declared before the first test score existed. Keys beyond these are allowed."""

    model_config = ConfigDict(frozen=True, extra="allow")

    study: str
    version: int = 1
    task: str
    alpha: float = Field(gt=0, lt=1)
    seeds: tuple[int, ...]
    """Of the search: every configuration is judged over them on the search split."""
    confirm_seeds: tuple[int, ...] = ()
    """Fresh ones, with which the chosen configurations are trained again; test scores are then theirs."""
    scorer_seed: int | None = None
    """Of the run that tells how difficult queries are, and is of no system; None: there is none."""
    metric: str
    margin: float | None = Field(default=None, gt=0)
    """Differences below it do not matter; None: nothing is called equivalent."""
    objectives: tuple[str, ...] = ()
    pruning: Literal["race"] | None = None
    budgets: Budgets = Budgets()
    search_split: str = "dev"
    test_split: str = "test"
    systems: tuple[str, ...] = Field(min_length=1)
    expected_queries: dict[str, int] = {}
    families: tuple[Family, ...] = Field(min_length=1)
    data: dict[str, Any] | None = None
    """Counts of the prepared data, and the distribution of its weak labels."""

    @property
    def all_systems(self) -> list[str]:
        """The systems in the plan's order, then those that only comparisons name, such as BM25."""
        named = [name for family in self.families for pair in family.comparisons for name in reversed(pair)]
        return list(dict.fromkeys([*self.systems, *named]))

    @property
    def searched_for(self) -> tuple[str, ...]:
        """The objectives of the search, the metric alone unless the plan names others."""
        return self.objectives or (self.metric,)

    def split_of(self, phase: Phase) -> str:
        """The split that a phase's scores are of."""
        return self.test_split if phase == "test" else self.search_split

    def seeds_of(self, phase: Phase) -> tuple[int, ...]:
        """The seeds that a phase's scores are over; those of the search where nothing was confirmed."""
        return self.seeds if phase == "search" else self.confirm_seeds or self.seeds
