"""Sentence encoders in a study: contrastive learning smoothed with Gaussian noise (Wu et al. 2021)."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import AfterValidator, Field

from search_spaces.registry import Disagreement, Kind, Sections
from search_spaces.settings import (
    Above0,
    AnalysisSettings,
    Numbers,
    RankMetric,
    SearchSettings,
    Values,
    described,
    increasing,
    some,
)
from trainables.smoothing.schedules import Variant
from trainables.specs.sentence_encoder import (
    EncoderSettings,
    EncoderSpecification,
    EncoderTraining,
    NoiseSettings,
    SentencesSettings,
)

METRIC = "STS"
_JUDGES = (METRIC, "STS/STS-B")
"""Metrics that the development set has: it is that of STS-B."""
_EXPECTED = f"{' or '.join(_JUDGES)}: the development set is that of STS-B"


class ContrastiveSearch(SearchSettings):
    """What is searched of sentence encoders."""

    strengths: ClassVar[tuple[str, ...]] = ("weight", "multiple", "mean", "deviation")
    optimised: ClassVar[tuple[str, ...]] = ("learning_rate", "batch_size", "temperature")

    weight: Numbers = (1.0,)
    """Lambda, of the noise beside the batch's own negatives."""
    multiple: Numbers = (3.0,)
    """M, the noise vectors, as multiples of the batch."""
    mean: Annotated[
        tuple[Annotated[float, Field(allow_inf_nan=False)], ...],
        AfterValidator(increasing),
        AfterValidator(some),
        described("a list of increasing numbers, e.g. [0.0, 0.5]"),
    ] = (0.0,)
    """Mu, of the noise."""
    deviation: Numbers = (1.0,)
    """Sigma, of the noise; where mu is 0 cosines do not depend on it."""
    temperature: Annotated[
        tuple[Above0, ...],
        AfterValidator(increasing),
        described("a list of increasing numbers above 0, e.g. [0.05, 0.1]"),
    ] = ()
    """Tau, searched for every system, the baseline included; none: training.temperature."""


class ContrastiveAnalysis(AnalysisSettings):
    """What is tested of sentence encoders: the mean over the sets, and each set."""

    metric: Annotated[RankMetric, described(_EXPECTED)] = METRIC
    """STS: Spearman's correlation of cosine and gold similarity times 100, averaged over the sets."""
    margin: Above0 | None = None
    """Differences below it do not matter, in units of the metric, whose whole is 100."""


class ContrastiveValues(Values):
    """The hyperparameters of a sentence encoder."""

    weight: Above0 | None = None
    multiple: Above0 | None = None
    mean: Annotated[float, Field(allow_inf_nan=False)] | None = None
    deviation: Above0 | None = None
    temperature: Above0 | None = None


class ContrastiveStudy(Protocol):
    """What is read here of a study."""

    @property
    def task(self) -> SentencesSettings: ...
    @property
    def search(self) -> ContrastiveSearch: ...
    @property
    def training(self) -> EncoderTraining: ...
    @property
    def analysis(self) -> ContrastiveAnalysis: ...


def _metrics(study: ContrastiveStudy) -> tuple[str, ...]:
    """Each set of the test split; nothing where there is one, which is the mean."""
    return tuple(f"{METRIC}/{name}" for name in study.task.sets if len(study.task.sets) > 1)


def _misfits(training: EncoderTraining, task: Any) -> Iterator[Disagreement]:
    if training.checkpoint not in ("last", *_JUDGES):
        yield "training.checkpoint", training.checkpoint, f"last, {_EXPECTED}", ()


def _disagreements(study: ContrastiveStudy) -> Iterator[Disagreement]:
    search = study.search
    if 0 in search.mean and len(search.deviation) > 1:
        expected = "one value where search.mean has 0: the cosine with noise around 0 does not depend on its sigma"
        yield "search.deviation", list(search.deviation), expected, ("search.mean",)
    if study.analysis.metric not in _JUDGES:
        yield "analysis.metric", study.analysis.metric, _EXPECTED, ()
    elif study.analysis.metric == _JUDGES[1] and "STS-B" not in study.task.sets:
        expected = f"{METRIC}, or STS-B among task.sets, which the test set is made of"
        yield "analysis.metric", study.analysis.metric, expected, ("task.sets",)
    if len(search.objectives) > 1:
        yield "search.objectives", list(search.objectives), "one: the development set has one set of pairs", ()
    for size in search.batch_size or (study.training.batch_size,):
        least = min(search.multiple)
        if round(least * size) < 1:
            expected = f"at least {0.5 / size:g}, which makes a vector beside a batch of {size}"
            yield "search.multiple", list(search.multiple), expected, ("training.batch_size", "search.batch_size")


KIND = Kind(
    specification=EncoderSpecification,
    smoothing=NoiseSettings,
    sections=Sections(SentencesSettings, EncoderSettings, EncoderTraining, ContrastiveSearch, ContrastiveAnalysis),
    values=ContrastiveValues,
    variants={
        "SimCSE": Variant("none", "constant"),
        "GS-InfoNCE": Variant("gaussian", "constant"),
        "T-GS-InfoNCE": Variant("gaussian", "two_stage"),
    },
    proposals={"SimCSE": 2, "GS-InfoNCE": 2, "T-GS-InfoNCE": 3},
    untuned={"weight": 1.0, "multiple": 3.0, "mean": 0.0, "deviation": 1.0},
    orders={},
    metrics=_metrics,
    unit="sentence pair",
    misfits=_misfits,
    disagreements=_disagreements,
)
