"""The study type: the sections of a study file, the variants, and what may vary."""

from collections.abc import Iterator
from typing import ClassVar

from own_package.logistic.specification import LogisticRunSpec, LogisticTraining, PointsTask, SoftTargets
from search_spaces.search_settings import AnalysisSettings, SearchSettings, Shares
from search_spaces.study_type import STUDY_TYPES, ConfigError, ConfigSections, StudyType
from trainables.smoothing.schedules import Variant
from trainables.specs.run_spec import BaseModelSettings


class LogisticSearchSettings(SearchSettings):
    """Search settings: one value or more for each hyperparameter."""

    smoothing_params: ClassVar[tuple[str, ...]] = ("softness",)

    softness: Shares = (0.1, 0.2, 0.4)
    """Strengths of the smoothing."""


def check_training(training: LogisticTraining, task: PointsTask) -> Iterator[ConfigError]:
    """Yield settings of training that the trainable does not have."""
    if training.checkpoint != "last":
        yield "training.checkpoint", training.checkpoint, "last: no other weights are kept", ()
    if training.evaluations != 1:
        yield "training.evaluations", training.evaluations, "1: it evaluates at the end", ()


STUDY_TYPE = StudyType(
    specification=LogisticRunSpec,
    smoothing=SoftTargets,
    sections=ConfigSections(PointsTask, BaseModelSettings, LogisticTraining, LogisticSearchSettings, AnalysisSettings),
    variants={
        "HARD": Variant("none", "constant", n_configurations=1),  # the first one is the baseline
        "SOFT": Variant("share", "constant"),
        "T-SOFT": Variant("share", "two_stage", compared_with=("SOFT",)),
    },
    defaults={"softness": 0.2},  # the strength
    reference_rankings={},
    check_training=check_training,
)
STUDY_TYPES.register("logistic", "linear scorer of random points", "an example")(STUDY_TYPE)
