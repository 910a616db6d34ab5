"""Training: batches of queries, each with one of its relevant documents. A batch is a function of (seed, step)."""

from collections.abc import Callable

import pandas as pd
from torch import Tensor

from dense_retriever.loss import smoothed_in_batch_loss
from dense_retriever.texts import RetrieverData
from trainables.data.query_groups import QueryGroups
from trainables.models.dropout import Dropout
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.sentence_encoders.encoder_trainer import EncoderTrainer, sample_batch
from trainables.specs.checkpoint_chain import Segment
from trainables.training.trainer import Batch, MicroBatch, TokenSource
from trainables.utils.base_settings import require
from trainables.utils.random import make_generator


class RetrieverTrainer(EncoderTrainer):
    """A dense retriever in training."""

    strength_key = "train/epsilon"

    def __init__(
        self, model: SentenceEncoder, data: RetrieverData, seed: int, pairs: pd.DataFrame, source: TokenSource
    ) -> None:
        self._groups = QueryGroups.from_relevant(pairs["relevant"].to_numpy())
        super().__init__(model, require(data.spec.training), seed, source, len(self._groups))
        self._pairs = data.number_pairs(pairs)

    def train(self, segment: Segment, until: int, after_step: Callable[[], None] = lambda: None) -> None:
        """Train from the instances seen to `until`, which lies inside `segment`; `after_step` follows every batch."""

        def make_batch(step: int, epsilon: float) -> Batch:
            dropout = self.make_dropout(step)
            return Batch(dropout, [lambda: self._make_pairs(step, epsilon, dropout)])

        self._train(segment, until, make_batch, after_step)

    def _make_pairs(self, step: int, epsilon: float, dropout: Dropout) -> MicroBatch:
        """Return the batch of a step as a whole."""
        seed, settings = self.seed, self.settings
        chosen = sample_batch(seed, step, self._n_training, settings.batch_size)
        drawn = make_generator(seed, "relevant", step).integers(self._groups.n_relevant[chosen])
        rows = self._pairs[:, self._groups.starts[chosen] + drawn].T.ravel()  # a query, its document, a query ...
        layout = self.make_layout(self.source.read(rows))

        def compute_loss() -> Tensor:
            with self.use_autocast():
                first, second = self.model.encode_views(layout, dropout)
            return smoothed_in_batch_loss(first.float(), second.float(), settings.temperature, epsilon)

        return MicroBatch(layout.arrays, (layout.longest, epsilon), compute_loss)
