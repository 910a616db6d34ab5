"""The settings of a run, and the modules that train it and prepare its data."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dense_retriever.collection_task import CollectionTask
from trainables.specs.plugin import TrainablePlugin
from trainables.specs.run_spec import BaseSmoothing, RunSpec
from trainables.specs.sentence_encoder import EncoderModelSettings, EncoderTrainingSettings
from trainables.utils.base_settings import MAX_COUNT, Proportion


class RetrieverModel(EncoderModelSettings):
    """Encoder of queries and documents: the mean of the tokens."""

    pooling: Literal["mean"] = "mean"
    reinit_layers: Literal[0] = 0
    max_length: Annotated[int, Field(ge=8, le=MAX_COUNT)] = 128
    """Tokens of a query or document. A longer one loses its end."""


class RetrieverTraining(EncoderTrainingSettings):
    """An instance is a query with one relevant document. The negatives are the other documents of the batch."""


class InBatchSmoothing(BaseSmoothing):
    """Label smoothing of the softmax over the documents of a batch."""

    distribution: Literal["none", "uniform"] = "none"
    epsilon: Proportion = 0.0
    """Share of the target that all documents of the batch have together."""

    @property
    def initial_strength(self) -> float:
        """Epsilon at the beginning of training."""
        return self.epsilon

    @property
    def has_probabilities(self) -> bool:
        """False: scores are cosines."""
        return False


class RetrieverRunSpec(RunSpec):
    """Specification of one run. The system "sampler" is the first stage, which is not trained."""

    trainable: ClassVar[str] = "dense_retriever.specification"

    system: Literal["dense-retriever", "sampler"] = "dense-retriever"
    task: CollectionTask
    model: RetrieverModel | None = None
    training: RetrieverTraining | None = None
    variant: InBatchSmoothing = InBatchSmoothing()


TRAINABLE = TrainablePlugin(RetrieverRunSpec, "dense_retriever.backend", "dense_retriever.collection")
