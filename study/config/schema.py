"""What a study is: its parts, their ranges, and what must hold between them.

The settings of a task, a model and its training are the trainable's: a run hashes them. What is searched and tested is
in `search_spaces`. The rest is here.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SerializeAsAny

from search_spaces.registry import DEFAULT_STUDY_TYPE, StudyType, get_study_type
from search_spaces.settings import (
    AnalysisSettings,
    ConfirmSettings,
    PositiveNumber,
    SearchSettings,
    Seed,
    check_distinct,
    expect,
)
from study.config.curriculum import CurriculumSearch
from trainables.specs.base import BaseModelSettings, BaseTaskSettings, BaseTrainingSettings
from trainables.utils.settings import PositiveInt, Proportion, Settings

TrackingMode = Literal["offline", "online", "disabled"]


_MAX_BYTES = 2.0**60
"""What no machine has, and a system's own counters still hold."""


def _parse_size(text: str) -> int:
    """Bytes of a size, 1 kB = 1000 B and 1 KiB = 1024 B; ValueError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(I?)B", text.strip().upper())
    if found is None:
        raise ValueError
    number, prefix, binary = found.groups()
    found_bytes = float(number) * float(1024 if binary else 1000) ** " KMGT".index(prefix or " ")
    if found_bytes > _MAX_BYTES:
        raise ValueError
    return round(found_bytes)


def _check_size(text: str | None) -> str | None:
    """`text`, if it is a size; ValueError otherwise."""
    if text is not None:
        _parse_size(text)
    return text


Text = Annotated[str, Field(min_length=1), expect("text of at least one character")]


class TrackingSettings(Settings):
    """Weights & Biases."""

    mode: TrackingMode = "offline"
    """WANDB_MODE in the environment overrides it."""
    project: Text | None = None
    """None: the study's name."""
    entity: Text | None = None
    """User or team whose project it is; none: the key's own."""


class ResourceSettings(Settings):
    """What a study may use; of these only the kind of device is something that results depend on."""

    concurrent: PositiveInt | None = None
    """Trials at once; none: cores // training.threads."""
    gpu: Proportion = 0.0
    """Share of a GPU that a trial takes, e.g. 0.25 for four trials on each; 0: trials run on the CPU."""
    custom: dict[str, PositiveNumber] = Field(default={})
    """Further resources of Ray that a trial takes, e.g. {"amx": 0.01} where nodes were started with that resource."""
    address: Text | None = None
    """Address of a running Ray cluster, e.g. auto; none: RAY_ADDRESS if that is set, else this machine."""


class TrialSettings(Settings):
    """What a trial may take; one that takes more fails, is recorded with the cause, and the study goes on."""

    minutes: Annotated[float, Field(gt=0, le=10**6)] | None = None
    """Of one step of a trial, from one evaluation or remembered state to the next; none: no limit."""
    memory: Annotated[str | None, AfterValidator(_check_size), expect('a size as text, e.g. "4GB", or none')] = None
    """Of the trial's process, files that it maps left out; none: no limit."""

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory."""
        return None if self.memory is None else _parse_size(self.memory)


class OutputSettings(Settings):
    """Where results go."""

    folder: Text | None = None
    """None: results/<name of the study>."""
    records: Text | None = None
    """URL (any file system of fsspec, e.g. s3://bucket/records) where finished runs are kept beside the folder, for
    nodes that do not see the folder; none: in the folder alone."""


class CacheSettings(Settings):
    """What is computed once and kept for whoever needs it again; no result depends on it."""

    folder: Text = "results/.cache"
    """Prepared data, tokens and what frozen layers make of them, shared by studies."""
    stages: Text | None = None
    """Folder or URL (any file system of fsspec, e.g. s3://bucket/stages) of the states of training; none: stages in the
    cache's folder."""
    budget: Annotated[
        str | None,
        AfterValidator(_check_size),
        expect('a size as text, e.g. "500MB", "20GB" or "1.5 GiB", or none for no limit'),
    ] = "20GB"
    """What all states may take. The longest unused are removed, but none that the study still needs."""
    interval: Annotated[float, Field(ge=0)] = 60.0
    """Seconds of training that a kill may cost; 0: a batch."""

    @property
    def budget_bytes(self) -> int | None:
        """The budget."""
        return None if self.budget is None else _parse_size(self.budget)


class Study(Settings):
    """Everything a study is. `study.config.study_class` makes the class of each trainable, which checks that its parts
    agree."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    name: Annotated[
        str, Field(pattern=r"^[a-z0-9-]{1,64}$"), expect("lower-case letters, digits and hyphens, at most 64")
    ]
    trainable: Annotated[str, Field(exclude_if=lambda it: it == DEFAULT_STUDY_TYPE)] = DEFAULT_STUDY_TYPE
    """What is trained: a key of `search_spaces.registry.KINDS`."""
    seeds: Annotated[
        tuple[Seed, ...],
        AfterValidator(check_distinct),
        expect("a list of distinct whole numbers from 0 to 4294967295, at least one, e.g. [1, 2, 3]"),
    ] = (1, 2, 3, 4, 5)
    variants: tuple[str, ...]
    """Names out of the trainable's, its baseline among them; none: all."""
    task: SerializeAsAny[BaseTaskSettings]
    model: SerializeAsAny[BaseModelSettings]
    training: SerializeAsAny[BaseTrainingSettings]
    curriculum: CurriculumSearch = CurriculumSearch()
    search: SerializeAsAny[SearchSettings]
    confirm: ConfirmSettings = ConfirmSettings()
    analysis: SerializeAsAny[AnalysisSettings]
    tracking: TrackingSettings = TrackingSettings()
    resources: ResourceSettings = ResourceSettings()
    trial: TrialSettings = TrialSettings()
    output: OutputSettings = OutputSettings()
    caching: CacheSettings = Field(CacheSettings(), alias="cache")

    @property
    def study_type(self) -> StudyType:
        """What the trainable brings."""
        return get_study_type(self.trainable)

    @property
    def folder(self) -> Path:
        """Absolute folder of the study's results."""
        return Path(os.path.expanduser(self.output.folder or f"results/{self.name}")).absolute()

    @property
    def cache(self) -> Path:
        """Absolute folder of what studies share."""
        return Path(os.path.expanduser(self.caching.folder)).absolute()

    @property
    def checkpoints_url(self) -> str:
        """Absolute folder, or URL, of the states of training."""
        place = self.caching.stages or str(self.cache / "stages")
        return place if "://" in place else str(Path(os.path.expanduser(place)).absolute())

    @property
    def records_url(self) -> str | None:
        """Absolute folder, or URL, where finished runs are kept beside the study's folder."""
        place = self.output.records
        return place if place is None or "://" in place else str(Path(os.path.expanduser(place)).absolute())

    @property
    def project(self) -> str:
        """Project of the study in Weights & Biases."""
        return self.tracking.project or self.name
