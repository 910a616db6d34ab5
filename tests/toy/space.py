"""The toy in a study: its sections, its space, its variants."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from search_spaces.registry import Disagreement, Kind, Sections
from search_spaces.settings import (
    Above0,
    AnalysisSettings,
    SearchSettings,
    Shares,
    Values,
    described,
    increasing,
)
from tests.toy.trainable import ToySmoothing, ToySpecification, ToyTask, ToyTraining
from trainables.smoothing.schedules import Variant
from trainables.specs.base import CommonModel


class ToySearch(SearchSettings):
    """What is searched of it."""

    strengths: ClassVar[tuple[str, ...]] = ("softness",)
    optimised: ClassVar[tuple[str, ...]] = ("learning_rate", "batch_size", "ridge")

    softness: Shares = (0.1, 0.2, 0.4)
    ridge: Annotated[
        tuple[Above0, ...],
        AfterValidator(increasing),
        described("a list of increasing numbers above 0, e.g. [0.01, 0.1]"),
    ] = ()


class ToyValues(Values):
    """Its hyperparameters."""

    softness: Annotated[float, Field(gt=0, le=1)] | None = None
    ridge: Above0 | None = None


def _misfits(training: ToyTraining, task: Any) -> Iterator[Disagreement]:
    if training.checkpoint != "last":
        yield "training.checkpoint", training.checkpoint, "last: no other weights are kept", ()


KIND = Kind(
    specification=ToySpecification,
    smoothing=ToySmoothing,
    sections=Sections(ToyTask, CommonModel, ToyTraining, ToySearch, AnalysisSettings),
    values=ToyValues,
    variants={
        "HARD": Variant("none", "constant"),
        "SOFT": Variant("share", "constant"),
        "T-SOFT": Variant("share", "two_stage"),
    },
    proposals={"HARD": 2, "SOFT": 2, "T-SOFT": 2},
    untuned={"softness": 0.2},
    orders={"FEATURE": "feature"},
    comparisons=(("T-SOFT", "SOFT"),),
    misfits=_misfits,
)
