"""The analysis plan, which was declared before the first test score existed."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from trainables.metrics import FirstStage, get_measure

_SYMBOLS = {"epsilon": "ε"}
Phase = Literal["search", "confirmed", "test"]
"""Purpose of scores: choosing a configuration, judging that choice with fresh seeds, comparing the chosen."""
COLLECTIONS = "collections"
"""Split of the family that compares means over all further collections."""


HYPERPARAMETERS = (
    "epsilon", "schedule", "switch", "end", "rate", "a", "b", "learning_rate", "pacing", "score", "delta", "duration",
    "temperature",
)  # fmt: skip
"""Hyperparameters of plans that name none."""


class PlannedFamily(BaseModel, frozen=True, extra="forbid"):
    """Comparisons that are corrected together: pairs (system, baseline), each by every one of `metrics`."""

    name: str
    correction: str = "bonferroni"
    comparisons: tuple[tuple[str, str], ...]
    metrics: tuple[str, ...] = ()
    """Metrics of the comparisons. If empty, the plan's metric."""
    split: str = "test"
    """What the systems are compared on: "dev", the split of the search, "test", the label of a further collection, or
    `COLLECTIONS` for the mean over these."""

    @property
    def phase(self) -> str:
        """Phase with the scores that are compared; for collections, their split."""
        return "search" if self.split == "dev" else self.split

    def format_pairs(self) -> str:
        """Format the pairs, grouped by baseline.

        Example:
            >>> PlannedFamily(name="variants", comparisons=(("LS", "BERT"), ("T-LS", "BERT"))).format_pairs()
            'LS and T-LS with BERT'
        """
        against: dict[str, list[str]] = {}
        for system, baseline in self.comparisons:
            against.setdefault(baseline, []).append(system)
        return "; ".join(f"{join_with_and(names)} with {baseline}" for baseline, names in against.items())


class PlannedCollection(BaseModel, frozen=True, extra="allow"):
    """Further collection that the models of a study are evaluated on."""

    label: str
    metric: str
    candidates: str
    """The candidates of its queries, in words."""


class ComparedSystem(BaseModel, frozen=True, extra="forbid"):
    """System that is one value of a hyperparameter of its variant."""

    variant: str
    value: float | str


class ComparedHyperparameter(BaseModel, frozen=True, extra="forbid"):
    """Hyperparameter with one system for each of its values."""

    hyperparameter: str
    systems: dict[str, ComparedSystem]
    """The systems of these values by name; variants without the hyperparameter are absent."""


class Budgets(BaseModel, frozen=True, extra="allow"):
    """Limits of a search. None means no limit."""

    hours: float | None = None
    gpu_hours: float | None = None


class Plan(BaseModel, frozen=True, extra="allow"):
    """The analysis plan of a study. Keys that are not listed here are allowed.

    Example:
        >>> family = {"name": "variants", "comparisons": [("LS", "BERT"), ("T-LS", "BERT")]}
        >>> plan = Plan(
        ...     study="demo", task="toy", alpha=0.05, seeds=(1, 2), metric="R10@1", systems=("BERT", "LS", "T-LS"),
        ...     families=(family,),
        ... )
        >>> plan.headline.correction, plan.get_split("test"), plan.strength
        ('bonferroni', 'test', 'epsilon')
    """

    study: str
    version: int = 1
    task: str
    alpha: float = Field(gt=0, lt=1)
    seeds: tuple[int, ...]
    """Seeds of the search: every configuration is judged over them on the search split."""
    confirm_seeds: tuple[int, ...] = ()
    """Fresh seeds, with which the chosen configurations are trained again. Test scores are then from these runs."""
    group_size: int | None = Field(default=None, ge=2)
    """Number of fresh seeds a group of a sequential confirmation. If None, all fresh seeds are run."""
    looks_taken: int | None = None
    """Number of looks after which the sequential confirmation stopped. No plan contains it; it follows from scores."""
    scorer_seed: int | None = None
    """Seed of the scoring run, which computes difficulty scores and belongs to no system. If None, there is none."""
    metric: str
    unit: str = "query"
    """Unit that the metric has a value for, and that the statistics are over."""
    margin: float | None = Field(default=None, gt=0)
    """Differences below it do not matter. If None, no comparison is called equivalent."""
    seed_variance: Literal["own", "pooled"] = "own"
    """Variation between seeds in the tests for new queries and new seeds: of each comparison, or of its family."""
    hyperparameters: tuple[str, ...] = Field(HYPERPARAMETERS, min_length=1)
    """Hyperparameters in which configurations may differ, in the order in which searches suggest them. The first is the
    strength, which a schedule changes.
    """
    pruning: Literal["race"] | None = None
    budgets: Budgets = Budgets()
    search_split: str = "dev"
    test_split: str = "test"
    systems: tuple[str, ...] = Field(min_length=1)
    expected_queries: dict[str, int] = {}
    families: tuple[PlannedFamily, ...] = Field(min_length=1)
    shared_beginnings: tuple[tuple[str, str], ...] = ()
    """Pairs of systems that may have trained alike, to the bit, until one switched its smoothing off. The chosen
    configurations did if all else is the same, see `analysis.comparisons.shared_beginnings`.
    """
    collections: tuple[PlannedCollection, ...] = ()
    """Further collections that the tested models are evaluated on."""
    compared: ComparedHyperparameter | None = None
    """Hyperparameter with one system for each of its values. If None, each variant is one system."""
    label_noise: str | None = None
    """Noise in the training labels, in words. If None, there is none."""
    first_stage: FirstStage | None = None
    """First stage that retrieved the candidates. If None, they were sampled, with the relevant documents among them."""
    data: dict[str, Any] | None = None
    """Counts of the prepared data, and the distribution of its weak labels."""

    @property
    def all_systems(self) -> list[str]:
        """The systems in the plan's order, then those that only comparisons name, such as BM25."""
        named = [name for family in self.families for pair in family.comparisons for name in reversed(pair)]
        return list(dict.fromkeys([*self.systems, *named]))

    def get_variant(self, system: str) -> str:
        """Return the variant that a system is a value of, or the system's own name if it is none."""
        known = self.compared.systems if self.compared else {}
        return known[system].variant if system in known else system

    @property
    def is_correlation(self) -> bool:
        """True if the metric is a correlation over a whole split. Its values of the units are pseudo-values."""
        return get_measure(self.metric).sts_correlation is not None

    @property
    def is_reranking(self) -> bool:
        """True if candidates of queries are ranked."""
        return self.unit == "query"

    @property
    def candidates(self) -> str:
        """The candidates of the evaluated queries, in words; empty if pairs of sentences are evaluated."""
        if self.first_stage:
            return f"{self.first_stage.source}, none added"
        return "sampled, the relevant documents among them" if self.is_reranking else ""

    @property
    def strength(self) -> str:
        """The hyperparameter that a schedule changes."""
        return self.hyperparameters[0]

    @property
    def symbol(self) -> str:
        """Name of the strength in tables and figures."""
        return _SYMBOLS.get(self.strength, self.strength.replace("_", " "))

    @property
    def headline(self) -> PlannedFamily:
        """The family that the report's conclusion is about: the first one on the test split by the plan's metric."""
        by_metric = (family for family in self.test_families if self.metric in self.get_family_metrics(family))
        return next(by_metric, self.families[0])

    @property
    def test_families(self) -> list[PlannedFamily]:
        """The families that compare on the test split."""
        return [family for family in self.families if family.phase == "test"]

    def list_collections(self) -> list[str]:
        """Return the labels of the further collections."""
        return [each.label for each in self.collections]

    def get_metric(self, phase: str) -> str:
        """Return the metric by which systems are judged in a phase, or on a collection."""
        return next((each.metric for each in self.collections if each.label == phase), self.metric)

    def get_family_metrics(self, family: PlannedFamily) -> tuple[str, ...]:
        """Return the metrics that a family compares by."""
        return family.metrics or (self.metric,)

    @property
    def metrics(self) -> list[str]:
        """Metrics of all families on dev and test, in their order, and the plan's own metric."""
        own = [family for family in self.families if family.split in ("dev", "test")]
        named = [name for family in own for name in self.get_family_metrics(family)]
        return list(dict.fromkeys([*named, self.metric]))

    def adapt_to_unit(self, text: str) -> str:
        """Replace "query" in a text by the unit of the statistics."""
        return adapt_to_unit(text, self.unit)

    def is_exploratory(self, pair: tuple[str, str]) -> bool:
        """Return whether a comparison was added when test scores existed."""
        return list(pair) in (self.model_extra or {}).get("exploratory", [])

    def get_split(self, phase: str) -> str:
        """Return the split that the scores of a phase are on; a collection is one."""
        if phase in (*self.list_collections(), COLLECTIONS):
            return phase
        return self.test_split if phase == "test" else self.search_split

    def get_seeds(self, phase: str) -> tuple[int, ...]:
        """Return the seeds that the scores of a phase are over; without confirmation, those of the search."""
        if phase == "search" or not self.confirm_seeds:
            return self.seeds
        return self.confirm_seeds[: self.looks[self.looks_taken - 1]] if self.looks_taken else self.confirm_seeds

    def stop_after(self, looks: int) -> "Plan":
        """Return the plan of a sequential study that stopped after a number of looks: its later seeds do not count."""
        return self.model_copy(update={"looks_taken": looks})

    @property
    def looks(self) -> tuple[int, ...]:
        """Number of fresh seeds at each look at the test scores; one look at all of them unless there are groups.

        Example:
            >>> family = {"name": "variants", "comparisons": [("LS", "BERT")]}
            >>> settings = {"study": "demo", "task": "toy", "alpha": 0.05, "metric": "R10@1", "systems": ("BERT", "LS")}
            >>> seeds = {"seeds": (1, 2), "confirm_seeds": (101, 102, 103, 104, 105), "group_size": 2}
            >>> Plan(**settings, **seeds, families=(family,)).looks
            (2, 4, 5)
        """
        total = len(self.confirm_seeds or self.seeds)
        return (*range(self.group_size, total, self.group_size), total) if self.group_size else (total,)


def adapt_to_unit(text: str, unit: str) -> str:
    """Replace "query" in a text by another unit of the statistics.

    Example:
        >>> adapt_to_unit("1000 queries", "pair")
        '1000 pairs'
    """
    return text if unit == "query" else text.replace("queries", "pairs").replace("query", "pair")


def join_with_and(names: Sequence[str]) -> str:
    """Join names as in a sentence.

    Example:
        >>> join_with_and(["BERT", "LS", "T-LS"])
        'BERT, LS and T-LS'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
