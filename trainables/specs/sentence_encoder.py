"""What a run of the sentence encoder is: data, encoder, training, and the noise that smooths its loss."""

from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field

from trainables.specs.base import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.utils.settings import MAX_COUNT, AtLeastTwo, NonNegativeInt, PositiveInt

SetName = Literal["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
STS_SETS: tuple[SetName, ...] = get_args(SetName)
"""The sets of the standard evaluation (SentEval), in the order of its tables."""


def _sort_sets(sets: tuple[SetName, ...]) -> tuple[SetName, ...]:
    """Each once, in the order of `SETS`: what is the same evaluation is written in one way."""
    return tuple(name for name in STS_SETS if name in sets)


class EncoderTaskSettings(BaseTaskSettings):
    """Which sentences an encoder is trained on, and which sets of pairs it is evaluated on."""

    name: Literal["sentences"] = "sentences"
    path: str | None = None
    """File of training sentences, one a line; not part of what identifies a run."""
    evaluation_path: str | None = None
    """Folder with STS/ and SICK/ as the standard evaluation toolkit (SentEval) lays them out; not part of what
    identifies a run."""
    sets: Annotated[tuple[SetName, ...], Field(min_length=1), AfterValidator(_sort_sets)] = STS_SETS
    """Sets of the test split; the development split is that of STS-B, whatever stands here."""
    sentences: PositiveInt | None = None
    """At most this many of the file's sentences are used, the first by the hash of their text; none: all."""


class EncoderModelSettings(BaseModelSettings):
    """The sentence encoder."""

    pooling: Literal["cls", "mean"] = "cls"
    """The embedding of a sentence: the last layer's [CLS], which in training alone goes through a fresh dense layer and
    tanh (Gao et al. 2021, section 6.3), or the mean of the last layer's tokens."""
    fresh_layers: NonNegativeInt = 0
    """The last n layers begin with random weights, drawn by the run's seed, instead of the model's."""
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 32
    """Tokens of a training sentence, the special ones included; what is too long loses its end. An evaluation takes
    sentences as long as the model can."""


class EncoderTrainingSettings(BaseTrainingSettings):
    """The optimisation of a sentence encoder. Defaults: Wu et al. (2021), section 4.

    An instance is a sentence, seen in two views; an epoch is each training sentence once.
    """

    instances: NonNegativeInt = 1_000_000
    """Sentences seen in training; 0 is the untrained model."""
    batch_size: AtLeastTwo = 64
    """Sentences a batch; the others of a batch are a sentence's negatives."""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-5
    """Of the encoder and of the dense layer; 1e-5 for the large models."""
    gradient_norm: Annotated[float, Field(gt=0)] = 1.0
    decay: Literal["constant", "linear"] = "linear"
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """Tau, by which cosines are divided."""


class NoiseSmoothing(BaseSmoothing):
    """What is added to a batch's negatives: Gaussian noise vectors. Wu et al. (2021), equations 4 and 5."""

    distribution: Literal["none", "gaussian"] = "none"
    multiple: Annotated[float, Field(ge=0)] = 0.0
    """M as a multiple of the batch, to the nearest whole vector."""
    mean: float = 0.0
    """Mu, of every component."""
    deviation: Annotated[float, Field(gt=0)] = 1.0
    """Sigma, of every component."""
    weight: Annotated[float, Field(ge=0)] = 0.0
    """Lambda, of the noise in the denominator; a schedule moves it over training."""

    @property
    def initial_strength(self) -> float:
        """Lambda; 0 where there is no vector."""
        return self.weight if self.multiple else 0.0

    def canonicalize(self) -> Self:
        """The one name of this behaviour: cosines do not tell vectors from their multiples, so that mu counts in units
        of sigma, and where mu is 0 sigma does not count at all."""
        found = super().canonicalize()
        return found.model_copy(update={"mean": round(found.mean / found.deviation, 12) + 0.0, "deviation": 1.0})


class EncoderRunSpec(RunSpec):
    """One run of a sentence encoder."""

    trainable: ClassVar[str] = "trainables.sentence_encoders"

    system: Literal["sentence-encoder"] = "sentence-encoder"
    task: EncoderTaskSettings
    model: EncoderModelSettings | None = None
    training: EncoderTrainingSettings | None = None
    variant: NoiseSmoothing = NoiseSmoothing()


def as_encoder_spec(specification: RunSpec) -> EncoderRunSpec:
    """The specification of a run that is a sentence encoder's."""
    assert isinstance(specification, EncoderRunSpec)
    return specification
