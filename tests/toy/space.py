"""The toy in a study: its sections, its space, its variants."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from search_spaces.registry import STUDY_TYPES, ConfigError, ConfigSections, StudyType
from search_spaces.search_settings import (
    AnalysisSettings,
    SearchSettings,
    Shares,
    check_increasing,
    expect,
)
from tests.toy.trainable import ToySmoothing, ToySpecification, ToyTask, ToyTraining
from trainables.smoothing.schedules import Variant
from trainables.specs.base import BaseModelSettings
from trainables.utils.base_settings import PositiveNumber


class ToySearchSettings(SearchSettings):
    """Ranges of the search."""

    smoothing_params: ClassVar[tuple[str, ...]] = ("softness",)
    optimisation_params: ClassVar[tuple[str, ...]] = ("learning_rate", "ridge")

    softness: Shares = (0.1, 0.2, 0.4)
    ridge: Annotated[
        tuple[PositiveNumber, ...],
        AfterValidator(check_increasing),
        expect("a list of increasing numbers above 0, e.g. [0.01, 0.1]"),
    ] = ()


def _check_training(training: ToyTraining, task: Any) -> Iterator[ConfigError]:
    if training.checkpoint != "last":
        yield "training.checkpoint", training.checkpoint, "last: no other weights are kept", ()


STUDY_TYPE = StudyType(
    specification=ToySpecification,
    smoothing=ToySmoothing,
    sections=ConfigSections(ToyTask, BaseModelSettings, ToyTraining, ToySearchSettings, AnalysisSettings),
    variants={
        "HARD": Variant("none", "constant"),
        "SOFT": Variant("share", "constant"),
        "T-SOFT": Variant("share", "two_stage", compared_with=("SOFT",)),
    },
    defaults={"softness": 0.2},
    reference_rankings={"FEATURE": "feature"},
    check_training=_check_training,
)
STUDY_TYPES.register("toy", "a logistic scorer", "these tests")(STUDY_TYPE)
