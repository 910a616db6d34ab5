"""Sections and keys of a study, with their ranges and defaults.

The trainable defines the settings of the task, the model and the training, because the id of a run is a hash of them.
`search_spaces` defines the settings of the search and of the analysis. This module defines the rest.
"""

import operator
import os
import re
from itertools import count
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, SerializeAsAny

from search_spaces.search_settings import (
    AnalysisSettings,
    ConfirmSettings,
    Metric,
    SearchSettings,
    Seed,
    check_distinct,
    expect,
)
from search_spaces.study_type import DEFAULT_STUDY_TYPE, StudyType, get_study_type
from study.config.curriculum import CurriculumSearch
from trainables.specs.run_spec import BaseModelSettings, BaseTaskSettings, BaseTrainingSettings
from trainables.utils.base_settings import PositiveInt, PositiveNumber, Proportion, Settings

UNTRAINED = "untrained"
"""Name of the untrained model, where every seed has its own."""
TrackingMode = Literal["offline", "online", "disabled"]
KeptModels = Literal["best", "all"]


_MAX_BYTES = 2.0**60
"""Largest size accepted: more than any machine has, and still within the range of the system's counters."""


def _parse_size(text: str) -> int:
    """Return a size in bytes, with 1 kB = 1000 B and 1 KiB = 1024 B; raise ValueError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(I?)B", text.strip().upper())
    if match is None:
        raise ValueError
    number, prefix, binary = match.groups()
    size = float(number) * float(1024 if binary else 1000) ** " KMGT".index(prefix or " ")
    if size > _MAX_BYTES:
        raise ValueError
    return round(size)


def _check_size(text: str | None) -> str | None:
    """Return `text` if it is a size or None; raise ValueError otherwise."""
    if text is not None:
        _parse_size(text)
    return text


def _check_label(label: str) -> str:
    """Return a label that is no name of a split; raise ValueError otherwise."""
    if label in ("train", "dev", "test", "collections"):
        raise ValueError
    return label


Text = Annotated[str, Field(min_length=1), expect("text of at least one character")]


class TrackingSettings(Settings):
    """Settings of the tracking in Weights & Biases."""

    mode: TrackingMode = "offline"
    """Mode of the W&B client. The environment variable WANDB_MODE overrides it."""
    project: Text | None = None
    """W&B project. If None, the name of the study."""
    entity: Text | None = None
    """User or team that owns the project. If None, the default of the API key."""
    group: Text | None = None
    """Text before the configuration's id in the W&B group of a run."""


class ResourceSettings(Settings):
    """Resources that a study may use; of these, results depend only on the type of the device."""

    concurrent: PositiveInt | None = None
    """Maximum number of concurrent trials. If None, the number of cores divided by training.threads."""
    gpu: Proportion = 0.0
    """Share of a GPU for a trial, e.g. 0.25 for four trials on each GPU. If 0, trials run on the CPU."""
    address: Text | None = None
    """Address of a running Ray cluster, e.g. auto.

    If None, the environment variable RAY_ADDRESS, or else this machine."""


class TrialSettings(Settings):
    """Limits of a trial.

    A trial that exceeds a limit fails; its record contains the cause, and the study continues.
    """

    minutes: Annotated[float, Field(gt=0, le=10**6)] | None = None
    """Maximum minutes of a trial from one evaluation or checkpoint to the next. If None, no limit."""
    memory: Annotated[str | None, AfterValidator(_check_size), expect('a size as text, e.g. "4GB", or none')] = None
    """Maximum memory of a trial's process, without memory-mapped files. If None, no limit."""

    @property
    def memory_bytes(self) -> int | None:
        """Maximum memory in bytes; None if there is no limit."""
        return None if self.memory is None else _parse_size(self.memory)


class OutputSettings(Settings):
    """Locations of the results."""

    folder: Text | None = None
    """Folder of the results. If None, results/<name of the study>."""
    remote: Text | None = None
    """Folder or URL (fsspec, e.g. s3://bucket/records) of a second copy of the records, from which the study continues
    on another machine."""
    models: KeptModels | None = "best"
    """Final weights of chosen systems that are kept for `study.export`: of the best seed on dev, or of all.

    If None, only in the cache, as long as it has room."""


class CacheSettings(Settings):
    """Settings of the cache that runs and studies share; no result depends on it."""

    folder: Text = "results/.cache"
    """Folder of prepared data, tokens and frozen features; studies share it."""
    checkpoints: Text | None = None
    """Folder or URL (fsspec, e.g. s3://bucket/stages) of the checkpoints. If None, `stages` in the cache folder."""
    max_size: Annotated[
        str | None,
        AfterValidator(_check_size),
        expect('a size as text, e.g. "500MB", "20GB" or "1.5 GiB", or none for no limit'),
    ] = "20GB"
    """Maximum size of all checkpoints. The least recently used ones that no study needs are removed first."""
    checkpoint_interval: Annotated[float, Field(ge=0)] = 60.0
    """Maximum seconds of training that a kill may lose. If 0, at most one batch."""

    @property
    def max_bytes(self) -> int | None:
        """Maximum size of all checkpoints in bytes; None if there is no limit."""
        return None if self.max_size is None else _parse_size(self.max_size)


class EvaluatedCollection(Settings):
    """A further collection on which the tested models are evaluated; a family of comparisons of its own."""

    label: Annotated[
        str,
        Field(pattern=r"^[\w.+-][\w.+ -]{0,39}$"),
        AfterValidator(_check_label),
        expect("a name of at most 40 letters, digits and blanks, other than train, dev, test and collections"),
    ]
    """Name of the collection in tables."""
    metric: Metric = "nDCG@10"
    """Metric on this collection."""
    task: SerializeAsAny[BaseTaskSettings]
    """The collection and the candidates of its queries, with the keys of [task] and `split`."""


class ExpectedSettings(Settings):
    """Expected results of a study file, with which readers and tests compare; they change nothing."""

    data: Text | None = None
    """Data that the study needs. If None, no download."""
    minutes: PositiveNumber | None = None
    """Measured minutes on two cores without a GPU."""
    scores: dict[str, float] = Field(default={})
    """Measured test score of each system; other processors or versions may change it by up to .01."""


class Study(Settings):
    """All settings of a study.

    `study.config.study_class` creates a subclass for each trainable, which checks that the sections are consistent.
    """

    name: Annotated[
        str, Field(pattern=r"^[a-z0-9-]{1,64}$"), expect("lower-case letters, digits and hyphens, at most 64")
    ]
    """Name of the study, and by default of its folder in `results` and of its W&B project."""
    plugins: Annotated[
        tuple[Text, ...],
        AfterValidator(lambda names: check_distinct(names) if names else names),
        expect('a list of modules, e.g. ["my_package.my_module"]'),
    ] = ()
    """Modules that register further names, such as a loss of your own."""
    trainable: str = DEFAULT_STUDY_TYPE
    """Kind of model. It decides which of the following keys a study has."""
    seeds: Annotated[
        tuple[Seed, ...],
        AfterValidator(check_distinct),
        expect("a list of distinct whole numbers from 0 to 4294967295, at least one, e.g. [1, 2, 3]"),
    ] = (1, 2, 3, 4, 5)
    """Every configuration is run once with each seed."""
    variants: tuple[str, ...]
    """Variants with their baselines: the unsmoothed form of each loss."""
    task: SerializeAsAny[BaseTaskSettings]
    model: SerializeAsAny[BaseModelSettings]
    training: SerializeAsAny[BaseTrainingSettings]
    curriculum: CurriculumSearch = CurriculumSearch()
    search: SerializeAsAny[SearchSettings]
    confirm: ConfirmSettings = ConfirmSettings()
    analysis: SerializeAsAny[AnalysisSettings]
    evaluate: Annotated[tuple[EvaluatedCollection, ...], Field(exclude_if=operator.not_)] = ()
    """Further collections on which the tested models are evaluated, each a table [[evaluate]]."""
    tracking: TrackingSettings = TrackingSettings()
    resources: ResourceSettings = ResourceSettings()
    trial: TrialSettings = TrialSettings()
    output: OutputSettings = OutputSettings()
    cache: CacheSettings = CacheSettings()
    expected: ExpectedSettings = ExpectedSettings()
    _scorer_instances: int | None = PrivateAttr(default=None)

    @property
    def study_type(self) -> StudyType:
        """Properties of the trainable: its variants, hyperparameters and checks."""
        return get_study_type(self.trainable)

    @property
    def scorer_training(self) -> BaseTrainingSettings:
        """Training settings of the scoring run, which may be shorter or longer than the runs of the study."""
        epochs, instances = self.curriculum.scorer_epochs, self._scorer_instances
        if epochs is None:
            return self.training
        length = {"epochs": epochs} if instances is None else {"epochs": None, "instances": instances}
        return self.training.model_copy(update=length)

    def with_scorer_instances(self, instances: int) -> Self:
        """Return the study with the length of the scoring run's training, to which its epochs are converted."""
        study = self.model_copy()
        study._scorer_instances = instances
        return study

    @property
    def scorer_seed(self) -> int:
        """Seed of the scoring run: the first number that is no seed of another run."""
        return next(seed for seed in count() if seed not in {*self.seeds, *self.confirm.seeds})

    @property
    def fresh_seeds(self) -> tuple[int, ...]:
        """Seeds of the confirmation that are not among `seeds`."""
        return tuple(seed for seed in self.confirm.seeds if seed not in self.seeds)

    @property
    def reference_rankings(self) -> dict[str, str]:
        """Name of a system that needs no model, with this data -> the `system` of its specification."""
        rankings = self.study_type.reference_rankings
        return {self.task.name_reference_ranking(name): system for name, system in rankings.items()}

    @property
    def starting_ranking(self) -> tuple[str, str] | None:
        """Name and `system` of the ranking by the model before training; None if that has every seed."""
        name = self.study_type.name_starting_ranking
        return name(self.model) if name else None

    @property
    def references(self) -> list[str]:
        """Names of the systems that are not trained, which every study tests."""
        return [*self.reference_rankings, self.starting_ranking[0] if self.starting_ranking else UNTRAINED]

    @property
    def reuses_search_seeds(self) -> bool:
        """True if runs of `seeds` serve in the confirmation. The study then chooses nothing by their scores."""
        return len(self.fresh_seeds) < len(self.confirm.seeds)

    @property
    def folder(self) -> Path:
        """Absolute folder of the study's results."""
        return Path(os.path.expanduser(self.output.folder or f"results/{self.name}")).absolute()

    @property
    def cache_folder(self) -> Path:
        """Absolute folder of the cache, which studies share."""
        return Path(os.path.expanduser(self.cache.folder)).absolute()

    @property
    def checkpoints_url(self) -> str:
        """Absolute folder or URL of the checkpoints."""
        place = self.cache.checkpoints or str(self.cache_folder / "stages")
        return place if "://" in place else str(Path(os.path.expanduser(place)).absolute())

    @property
    def records_url(self) -> str | None:
        """Absolute folder or URL of the second copy of the records; None if there is no copy."""
        place = self.output.remote
        return place if place is None or "://" in place else str(Path(os.path.expanduser(place)).absolute())

    @property
    def project(self) -> str:
        """W&B project of the study."""
        return self.tracking.project or self.name
