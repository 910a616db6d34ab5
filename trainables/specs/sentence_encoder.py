"""Specification of a sentence-encoder run: task, model, training and smoothing by noise."""

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field

from trainables.specs.run_spec import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.utils.base_settings import MAX_COUNT, AtLeastTwo, NonNegativeInt

SetName = Literal["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
STS_SETS: tuple[SetName, ...] = get_args(SetName)
"""Sets of the standard evaluation (SentEval), in the order of its tables."""


def _sort_sets(sets: tuple[SetName, ...]) -> tuple[SetName, ...]:
    """Return each set once, in the order of `STS_SETS`, so that an equal evaluation has an equal hash."""
    return tuple(name for name in STS_SETS if name in sets)


class EncoderTaskSettings(BaseTaskSettings):
    """Settings of the training sentences and of the evaluated sets of sentence pairs."""

    name: Literal["sentences"] = "sentences"
    """Name of the task; there is one."""
    path: str | None = None
    """File of training sentences, one per line."""
    evaluation_path: str | None = None
    """Folder with STS/ and SICK/ in the layout of SentEval."""
    sets: Annotated[tuple[SetName, ...], Field(min_length=1), AfterValidator(_sort_sets)] = STS_SETS
    """Sets of the test split. The dev split is that of STS-B."""

    def list_sources(self) -> tuple[str | None, ...]:
        """Return the file of training sentences and the folder of the evaluated sets."""
        return (self.path, self.evaluation_path)


class EncoderModelSettings(BaseModelSettings):
    """Settings of the sentence encoder."""

    pooling: Literal["cls", "mean"] = "cls"
    """Embedding of a sentence: [CLS] or mean of the tokens of the last layer.

    In training, [CLS] passes through a new dense layer and tanh (Gao et al. 2021, section 6.3)."""
    reinit_layers: NonNegativeInt = 0
    """Number of last layers that start with random weights, drawn with the seed of the run."""
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 32
    """Tokens of a training sentence; a longer one is cut. An evaluation uses as many as the model accepts."""


class EncoderTrainingSettings(BaseTrainingSettings):
    """Settings of the optimisation of a sentence encoder. Defaults: Wu et al. (2021), section 4.

    An instance is a sentence, encoded in two views. An epoch contains each training sentence once.
    """

    instances: NonNegativeInt = 1_000_000
    """Number of training instances; 0 is the untrained model."""
    batch_size: AtLeastTwo = 64
    """Sentences per batch; the negatives of a sentence are the others in its batch."""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-5
    """Largest learning rate of AdamW; use 1e-5 for large models."""
    gradient_norm: Annotated[float, Field(gt=0)] = 1.0
    decay: Literal["constant", "linear"] = "linear"
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """Temperature tau, which divides cosines."""


class NoiseSmoothing(BaseSmoothing):
    """Settings of the Gaussian noise vectors among the negatives. Wu et al. (2021), equations 4 and 5."""

    distribution: Literal["none", "gaussian"] = "none"
    multiple: Annotated[float, Field(ge=0)] = 0.0
    """Number of noise vectors M as a multiple of the batch size, rounded to whole vectors."""
    weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight lambda of the noise in the denominator; a schedule changes it during training."""

    @property
    def initial_strength(self) -> float:
        """Noise weight lambda at the beginning of training; 0 if there are no noise vectors."""
        return self.weight if self.multiple else 0.0


class EncoderRunSpec(RunSpec):
    """Specification of one run of a sentence encoder."""

    trainable: ClassVar[str] = "trainables.sentence_encoders"

    system: Literal["sentence-encoder"] = "sentence-encoder"
    task: EncoderTaskSettings
    model: EncoderModelSettings | None = None
    training: EncoderTrainingSettings | None = None
    variant: NoiseSmoothing = NoiseSmoothing()


def as_encoder_spec(specification: RunSpec) -> EncoderRunSpec:
    """Return the specification with the type of a sentence encoder, which it must have."""
    assert isinstance(specification, EncoderRunSpec)
    return specification
