"""Specification of a cross-encoder run: task, model, training and label smoothing."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from trainables.losses import DEFAULT_LOSS, DEFAULT_TEMPERATURE, LOSSES, has_temperature
from trainables.smoothing import DISTRIBUTIONS
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.run_spec import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.utils.base_settings import MAX_COUNT, AtLeastTwo, PositiveInt, Proportion


class RankerModelSettings(BaseModelSettings):
    """Settings of the cross-encoder."""

    pooling: Literal["cls", "mean", "cosine", "saved"] = "cls"
    """Input of the new head: the [CLS] pooler, the mean of the tokens, or the standardised cosine between the means of
    query and document tokens, encoded together. saved: no new head; the model is a saved reranker, which training
    continues with its own pooling and head."""
    ranking_score: Literal["difference", "relevant_logit"] = "difference"
    """Score that ranks candidates: logit(relevant) - logit(not relevant), or logit(relevant), as in the code of Penha
    and Hauff (2021), without probabilities: no Brier, NLL, ECE or reliability diagram."""
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 512
    """Tokens of [CLS] query [SEP] document [SEP]. Longer inputs are cut, see task.truncation."""

    @property
    def has_saved_head(self) -> bool:
        """True if training continues a saved reranker."""
        return self.pooling == "saved"


def _check_tokens(value: Any) -> Any:
    """Return a number of tokens or "auto"; otherwise raise ValueError."""
    if value == "auto" or (type(value) is int and 1 <= value <= MAX_COUNT):
        return value
    raise ValueError('a whole number from 1, or "auto"')


class RankerTrainingSettings(BaseTrainingSettings):
    """Settings of the optimisation of a ranker. Defaults: Penha and Hauff (2021), section 4.

    An instance is a query-document pair. An epoch contains each training query once, with one relevant document and
    `negatives` others; with `unit` = "pair" it contains all relevant documents.
    """

    batch_size: AtLeastTwo = 32
    """Instances per batch; with `unit` = "query" a multiple of 1 + negatives."""
    negatives: PositiveInt = 9
    """Negatives per query in training."""
    unit: Literal["query", "pair"] = "query"
    """Unit that is shuffled: queries with their negatives, or single pairs as in the code of Penha and Hauff (2021).

    With "query", every batch has the same number of relevant documents."""
    head_learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the head. If None, `learning_rate`."""
    sampling: Literal["epochs", "uniform"] = "epochs"
    """Order of queries or pairs: shuffled in every epoch, or each batch drawn from all of them, as in the code of Penha
    and Hauff (2020)."""
    tokens_per_micro_batch: Annotated[int | Literal["auto"], BeforeValidator(_check_tokens)] = "auto"
    """Tokens above which a batch is computed in parts, to limit memory. auto: 2,048 on a processor, 65,536 on a GPU."""

    def count_epoch_instances(self, counts: Mapping[str, int]) -> int:
        """Return the number of instances of an epoch, given the numbers of queries and of relevant documents.

        Example:
            >>> RankerTrainingSettings(negatives=9, unit="pair").count_epoch_instances({"queries": 10, "relevant": 12})
            102
        """
        return counts["relevant" if self.unit == "pair" else "queries"] + counts["queries"] * self.negatives

    def get_head_learning_rate(self) -> float:
        """Return the learning rate of the head."""
        return self.head_learning_rate or self.learning_rate


class LabelSmoothing(BaseSmoothing):
    """Settings of the loss and of its label smoothing. Penha and Hauff (2021), section 3."""

    loss: Annotated[str, BeforeValidator(LOSSES.check_name)] = DEFAULT_LOSS
    """Loss with the targets that are smoothed."""
    distribution: Annotated[str, BeforeValidator(DISTRIBUTIONS.check_name)] = "none"
    epsilon: Proportion = 0.0
    """Strength of the smoothing."""
    temperature: Annotated[float | None, Field(gt=0)] = None
    """Divisor of the scores that a distillation learns or that the target of a query is mixed with.

    If None, `DEFAULT_TEMPERATURE`.
    """
    teacher: str | None = None
    """Digest of the file with the scores that a distillation learns. If None, they are those of the sampler."""

    @property
    def initial_strength(self) -> float:
        """Epsilon, the strength at the beginning of training."""
        return self.epsilon

    def canonicalize(self) -> Self:
        """Return the canonical settings of this behaviour, with a value for the temperature if it matters."""
        smoothing = super().canonicalize()
        is_used = has_temperature(smoothing.loss, smoothing.distribution)
        own = {
            "temperature": (self.temperature or DEFAULT_TEMPERATURE) if is_used else None,
            "teacher": self.teacher if LOSSES[smoothing.loss].is_distillation else None,
        }
        return smoothing.model_copy(update=own)

    def to_unsmoothed(self) -> Self:
        """Return the settings of the unsmoothed loss, which is the baseline of this smoothing."""
        return type(self)(loss=self.loss, temperature=self.temperature, teacher=self.teacher)

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

    `system` is "cross-encoder", or that of a ranking that is not trained. "sampler" is that of BM25, or that of the
    first stage which retrieved the candidates. "cosine" is that of the model that training starts from, which encodes
    query and document separately.
    """

    trainable: ClassVar[str] = "trainables.rankers"

    system: Literal["cross-encoder", "sampler", "cosine"] = "cross-encoder"
    task: RankerTaskSettings
    model: RankerModelSettings | None = None
    training: RankerTrainingSettings | None = None
    variant: LabelSmoothing = LabelSmoothing()


def as_ranker_spec(specification: RunSpec) -> RankerRunSpec:
    """Return the specification with the type of a ranker, which it must have."""
    assert isinstance(specification, RankerRunSpec)
    return specification
