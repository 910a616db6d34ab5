"""What was declared before the first test score existed: the plan, as the report reads it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from trainables.metrics import get_measure

_SYMBOLS = {"epsilon": "ε"}
Phase = Literal["search", "confirmed", "test"]
"""What scores are for: choosing a configuration, judging that choice with fresh seeds, comparing the chosen."""


HYPERPARAMETERS = (
    "epsilon", "schedule", "switch", "end", "rate", "a", "b", "learning_rate", "batch_size", "negatives", "pacing",
    "score", "delta", "duration",
)  # fmt: skip
"""Of plans that name none."""


class PlannedFamily(BaseModel):
    """Comparisons that are corrected together: pairs (system, baseline), each by every one of `metrics`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    correction: str = "bonferroni"
    comparisons: tuple[tuple[str, str], ...]
    metrics: tuple[str, ...] = ()
    """None: the plan's."""


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
    unit: str = "query"
    """What the metric has a value of, and what the statistics are over."""
    margin: float | None = Field(default=None, gt=0)
    """Differences below it do not matter; None: nothing is called equivalent."""
    hyperparameters: tuple[str, ...] = Field(HYPERPARAMETERS, min_length=1)
    """What configurations may differ in, in the order in which searches ask for it: first the strength, which a
    schedule moves."""
    objectives: tuple[str, ...] = ()
    pruning: Literal["race"] | None = None
    budgets: Budgets = Budgets()
    search_split: str = "dev"
    test_split: str = "test"
    systems: tuple[str, ...] = Field(min_length=1)
    expected_queries: dict[str, int] = {}
    families: tuple[PlannedFamily, ...] = Field(min_length=1)
    data: dict[str, Any] | None = None
    """Counts of the prepared data, and the distribution of its weak labels."""

    @property
    def all_systems(self) -> list[str]:
        """The systems in the plan's order, then those that only comparisons name, such as BM25."""
        named = [name for family in self.families for pair in family.comparisons for name in reversed(pair)]
        return list(dict.fromkeys([*self.systems, *named]))

    @property
    def is_correlation(self) -> bool:
        """Whether the metric is one of a whole split, and its values of the units are pseudo-values."""
        return get_measure(self.metric).sts_correlation is not None

    @property
    def is_reranking(self) -> bool:
        """Whether candidates of queries are ranked, the relevant documents always among them."""
        return self.unit == "query"

    @property
    def strength(self) -> str:
        """The hyperparameter that a schedule moves."""
        return self.hyperparameters[0]

    @property
    def symbol(self) -> str:
        """The same as tables and figures call it."""
        return _SYMBOLS.get(self.strength, self.strength.replace("_", " "))

    @property
    def headline(self) -> PlannedFamily:
        """The family that the report's answer is about: the first one that compares by the plan's metric."""
        return next((own for own in self.families if self.metric in self.get_family_metrics(own)), self.families[0])

    def get_family_metrics(self, family: PlannedFamily) -> tuple[str, ...]:
        """Those that a family compares by."""
        return family.metrics or (self.metric,)

    @property
    def metrics(self) -> list[str]:
        """Those of all families, in their order, and the plan's own."""
        named = [name for family in self.families for name in self.get_family_metrics(family)]
        return list(dict.fromkeys([*named, self.metric]))

    def adapt_to_unit(self, text: str) -> str:
        """Text that speaks of queries, about what the statistics are over."""
        return adapt_to_unit(text, self.unit)

    @property
    def search_objectives(self) -> tuple[str, ...]:
        """The objectives of the search, the metric alone unless the plan names others."""
        return self.objectives or (self.metric,)

    def get_split(self, phase: Phase) -> str:
        """The split that a phase's scores are of."""
        return self.test_split if phase == "test" else self.search_split

    def get_seeds(self, phase: Phase) -> tuple[int, ...]:
        """The seeds that a phase's scores are over; those of the search where nothing was confirmed."""
        return self.seeds if phase == "search" else self.confirm_seeds or self.seeds


def adapt_to_unit(text: str, unit: str) -> str:
    """Text that speaks of queries, about another unit of the statistics."""
    return text if unit == "query" else text.replace("queries", "pairs").replace("query", "pair")
