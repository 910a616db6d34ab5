"""What a study is: its parts, their ranges, and what must hold between them.

The settings of a task, a model and its training are `trainables.specification`'s: a run hashes them. The rest is here.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from trainables.specification import ModelSettings, Positive, Settings, Share, TaskSettings, TrainingSettings

SearchedName = Literal["LS", "T-LS", "WSLS", "T-WSLS"]
VariantName = Literal["BERT", "LS", "T-LS", "WSLS", "T-WSLS"]
VARIANTS: tuple[VariantName, ...] = get_args(VariantName)
TRIALS: dict[SearchedName, int] = {"LS": 2, "WSLS": 2, "T-LS": 3, "T-WSLS": 3}
TrackingMode = Literal["offline", "online", "disabled"]


def _described(expected: str) -> WrapValidator:
    """Whatever fails inside, the message is `expected` and the value is the whole field's."""

    def validate(value: Any, inner: Any) -> Any:
        try:
            return inner(tuple(value) if isinstance(value, list) else value)
        except ValueError:
            raise ValueError(expected) from None

    return WrapValidator(validate)


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values or len(set(values)) < len(values):
        raise ValueError
    return values


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    if list(_distinct(values)) != sorted(values):
        raise ValueError
    return values


def _with_baseline(values: tuple[VariantName, ...]) -> tuple[VariantName, ...]:
    if "BERT" not in _distinct(values):
        raise ValueError
    return values


def _bytes(text: str) -> int:
    """Bytes of a size, 1 kB = 1000 B and 1 KiB = 1024 B; ValueError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(I?)B", text.strip().upper())
    if found is None:
        raise ValueError
    number, prefix, binary = found.groups()
    power = " KMGT".index(prefix or " ")
    return round(float(number) * float(1024 if binary else 1000) ** power)


def _size(text: str | None) -> str | None:
    """`text`, if it is a size; ValueError otherwise."""
    if text is not None:
        _bytes(text)
    return text


Text = Annotated[str, Field(min_length=1), _described("text of at least one character")]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class SearchSettings(Settings):
    """The hyperparameters searched, on the development set. Every configuration is run with every seed."""

    trials: Annotated[
        dict[SearchedName, Positive],
        BeforeValidator(lambda value: {**TRIALS, **value} if isinstance(value, dict) else value),
    ] = TRIALS
    """Configurations proposed for a variant; variants left out keep their default."""
    parallel: Positive = 2
    """Configurations proposed in a round, for each variant; the proposals depend on it."""
    sampler: Literal["tpe"] = "tpe"
    seed: Seed = 0
    """Seed of the sampler."""
    epsilon: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...],
        AfterValidator(_increasing),
        _described("a list of increasing numbers, each above 0 and at most 1, e.g. [0.1, 0.2]"),
    ] = (0.1, 0.2, 0.3, 0.4)
    """Strengths of the smoothing."""
    switch: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...],
        AfterValidator(_increasing),
        _described("a list of increasing numbers, each above 0 and below 1 (share of training), e.g. [0.25, 0.5]"),
    ] = (0.25, 0.5, 0.75)
    """Switch points of T-LS and T-WSLS, as share of training."""

    def configurations(self, variant: str) -> int:
        """Number of distinct configurations of `variant` in the grid."""
        return len(self.epsilon) * (len(self.switch) if variant.startswith("T-") else 1)


class AnalysisSettings(Settings):
    """What is tested, and when a difference counts."""

    metric: Annotated[
        str,
        Field(pattern=r"^R[1-9]\d{0,5}@[1-9]\d{0,5}$"),
        _described("R<n>@<k>, e.g. R10@1, with n = task.candidates"),
    ] = "R10@1"
    """Among n candidates, the share of the relevant ones ranked in the first k."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    correction: Literal["bonferroni", "holm", "bh"] = "bonferroni"


class TrackingSettings(Settings):
    """Weights & Biases."""

    mode: TrackingMode = "offline"
    """WANDB_MODE in the environment overrides it."""
    project: Text | None = None
    """None: the study's name."""


class ResourceSettings(Settings):
    """What a study may use; of these only the kind of device is something that results depend on."""

    concurrent: Positive | None = None
    """Trials at once; none: cores // training.threads."""
    gpu: Share = 0.0
    """Share of a GPU that a trial takes, e.g. 0.25 for four trials on each; 0: trials run on the CPU."""
    address: Text | None = None
    """Address of a running Ray cluster; none: this machine."""


class OutputSettings(Settings):
    """Where results go."""

    folder: Text | None = None
    """None: results/<name of the study>."""


class CacheSettings(Settings):
    """What is computed once and kept for whoever needs it again; no result depends on it."""

    folder: Text = "results/.cache"
    """Prepared data, tokens and what frozen layers make of them, shared by studies."""
    stages: Text | None = None
    """Folder or URL (any file system of fsspec, e.g. s3://bucket/stages) of the states of training; none: stages in the
    cache's folder."""
    budget: Annotated[
        str | None,
        AfterValidator(_size),
        _described('a size as text, e.g. "500MB", "20GB" or "1.5 GiB", or none for no limit'),
    ] = "20GB"
    """What all states may take. The longest unused are removed, but none that the study still needs."""
    interval: Annotated[float, Field(ge=0)] = 60.0
    """Seconds of training that a kill may cost; 0: a batch."""

    @property
    def bytes(self) -> int | None:
        """The budget."""
        return None if self.budget is None else _bytes(self.budget)


class Study(Settings):
    """Everything a study is; its parts are checked against each other."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    name: Annotated[
        str, Field(pattern=r"^[a-z0-9-]{1,64}$"), _described("lower-case letters, digits and hyphens, at most 64")
    ]
    seeds: Annotated[
        tuple[Seed, ...],
        AfterValidator(_distinct),
        _described("a list of distinct whole numbers from 0 to 4294967295, at least one, e.g. [1, 2, 3]"),
    ] = (1, 2, 3, 4, 5)
    variants: Annotated[
        tuple[VariantName, ...],
        AfterValidator(_with_baseline),
        _described(
            f'a list of distinct names out of {", ".join(VARIANTS)}, the baseline BERT among them, e.g. ["BERT", "LS"]'
        ),
    ] = VARIANTS
    task: TaskSettings = TaskSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    search: SearchSettings = SearchSettings()
    analysis: AnalysisSettings = AnalysisSettings()
    tracking: TrackingSettings = TrackingSettings()
    resources: ResourceSettings = ResourceSettings()
    output: OutputSettings = OutputSettings()
    caching: CacheSettings = Field(CacheSettings(), alias="cache")

    @property
    def folder(self) -> Path:
        """Absolute folder of the study's results."""
        return Path(os.path.expanduser(self.output.folder or f"results/{self.name}")).absolute()

    @property
    def cache(self) -> Path:
        """Absolute folder of what studies share."""
        return Path(os.path.expanduser(self.caching.folder)).absolute()

    @property
    def stages(self) -> str:
        """Absolute folder, or URL, of the states of training."""
        place = self.caching.stages or str(self.cache / "stages")
        return place if "://" in place else str(Path(os.path.expanduser(place)).absolute())

    @property
    def project(self) -> str:
        """Project of the study in Weights & Biases."""
        return self.tracking.project or self.name

    @model_validator(mode="after")
    def _parts_agree(self) -> "Study":
        for key, value, expected, others in _disagreements(self):
            context = {"key": key, "value": value, "expected": expected, "others": others}
            raise PydanticCustomError("disagreement", "{key}: {value}; expected {expected}", context)
        return self


def _disagreements(study: Study) -> Iterator[tuple[str, object, str, tuple[str, ...]]]:
    """Key, value, what was expected, and the other keys that a user may have meant to change."""
    training, task, search = study.training, study.task, study.search
    group = 1 + training.negatives
    if training.batch_size % group:
        expected = f"a multiple of 1 + training.negatives = {group}; {_nearest(training.batch_size, group)} works"
        yield "training.batch_size", training.batch_size, expected, ("training.negatives",)
    if training.negatives >= task.candidates_of("train"):
        key = "task.train_candidates" if task.train_candidates else "task.candidates"
        expected = f"fewer than {key} = {task.candidates_of('train')}"
        yield "training.negatives", training.negatives, expected, (key,)
    weak = [name for name in study.variants if name.endswith("WSLS")]
    if weak and task.sampler.name == "random" and task.sampler.weak_label == "score":
        expected = f'"bm25" or "uniform" for {weak[0]}, since the sampler random has no scores'
        yield "task.sampler.weak_label", "score", expected, ("task.sampler.name", "variants")
    batches, rest = divmod(training.instances, training.batch_size)
    if rest or not batches:
        works = _nearest(training.instances, training.batch_size)
        expected = f"a positive multiple of training.batch_size = {training.batch_size}; {works} works"
        yield "training.instances", training.instances, expected, ("training.batch_size",)
    if training.evaluations > batches:
        expected = f"at most one for each of the {batches} batches"
        yield "training.evaluations", training.evaluations, expected, ("training.instances", "training.batch_size")
    layers, frozen = study.model.layers, study.model.frozen_layers
    if layers is not None and frozen >= layers:
        yield "model.frozen_layers", frozen, f"fewer than model.layers = {layers}", ("model.layers",)
    for variant, trials in search.trials.items():
        if variant in study.variants and trials > search.configurations(variant):
            grid = "search.epsilon x search.switch" if variant.startswith("T-") else "search.epsilon"
            expected = f"at most {search.configurations(variant)}, the distinct configurations of {grid}"
            yield f"search.trials.{variant}", trials, expected, ("search.epsilon", "search.switch")
    n, k = map(int, study.analysis.metric[1:].split("@"))
    if n != task.candidates or k >= n:
        expected = f"R{task.candidates}@<k> (n is task.candidates) with k below {task.candidates}"
        yield "analysis.metric", study.analysis.metric, expected, ("task.candidates",)


def _nearest(value: int, step: int) -> int:
    return max(1, (value + step // 2) // step) * step
