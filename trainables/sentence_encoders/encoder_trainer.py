"""Training of a sentence encoder: two views of each sentence against the rest of the batch, and noise.

A batch is a pure function of (seed, step). It is computed as a whole, since every sentence is a negative of every
other sentence.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from trainables.contrastive.loss import draw_noise, info_nce
from trainables.models.dropout import Dropout
from trainables.models.packing import duplicate_pairs
from trainables.models.precision import Precision, prepare_for_scoring
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.environment import TOKENS_AT_ONCE
from trainables.specs.sentence_encoder import EncoderTrainingSettings, NoiseSmoothing
from trainables.training.batching import split_into_micro_batches
from trainables.training.trainer import Batch, MicroBatch, TokenSource, Trainer
from trainables.utils.arrays import Floats, Ints
from trainables.utils.random import make_generator


class EncoderTrainer(Trainer):
    """A sentence encoder in training.

    Args:
        model: fresh model with the dense layer of this seed.
        settings: settings of the optimisation.
        seed: seed of every draw.
        source: source of the sentences.
        n_training: number of training sentences, which have the first numbers.
    """

    strength_key = "train/weight"
    model: SentenceEncoder
    settings: EncoderTrainingSettings

    def __init__(
        self,
        model: SentenceEncoder,
        settings: EncoderTrainingSettings,
        seed: int,
        source: TokenSource,
        n_training: int,
    ) -> None:
        super().__init__(model, settings, seed)
        self.source, self._n_training = source, n_training

    def train(self, segment: Segment, until: int, after_step: Callable[[], None] = lambda: None) -> None:
        """Train from the instances seen to `until`, which lies inside `segment`; `after_step` follows every batch.

        Raises:
            FloatingPointError: if the loss is not finite.
        """
        smoothing = segment.smoothing
        assert isinstance(smoothing, NoiseSmoothing)
        count = round(smoothing.multiple * self.settings.batch_size)

        def make_batch(step: int, weight: float) -> Batch:
            # One set of vectors for the whole batch, the same on every device.
            noise = draw_noise(self.seed, step, count, self.model.hidden_size).numpy() if weight else None
            dropout = self.make_dropout(step)
            return Batch(dropout, [lambda: self._make_micro_batch(step, noise, weight, dropout)])

        self._train(segment, until, make_batch, after_step)

    def _make_micro_batch(self, step: int, noise: np.ndarray | None, weight: float, dropout: Dropout) -> MicroBatch:
        """Return the batch of a step as a whole; its loss is the mean over the sentences."""
        settings = self.settings
        rows = sample_batch(self.seed, step, self._n_training, settings.batch_size)
        # The mean does not depend on the order, and attention is faster if neighbours have similar lengths.
        rows = rows[np.argsort(self.source.lengths[rows], kind="stable")]
        layout = self.make_layout(duplicate_pairs(self.source.read(rows)))
        read_noise = None if noise is None else layout.arrays.add(noise)

        def compute_loss() -> Tensor:
            with self.use_autocast():
                first, second = self.model.encode_views(layout, dropout)
            drawn = None if read_noise is None else read_noise()
            return info_nce(first.float(), second.float(), settings.temperature, drawn, weight)

        return MicroBatch(layout.arrays, (layout.longest, weight), compute_loss)

    def score_pairs(self, first: Ints, second: Ints, precision: Precision | None = None) -> Floats:
        """Return the cosine of every pair of sentences, shape (pairs,).

        Args:
            first: numbers of the first sentences, shape (pairs,).
            second: numbers of the second sentences, shape (pairs,).
            precision: precision of the embeddings. If None, that of the test split.
        """
        distinct, places = np.unique(np.concatenate([first, second]), return_inverse=True)
        one, other = self.embed_rows(distinct, precision).double()[torch.from_numpy(places)].chunk(2)
        cosines: Floats = nn.functional.cosine_similarity(one, other, dim=1).numpy()
        return np.where(first == second, 1.0, cosines)  # otherwise equal sentences would differ by rounding

    def embed_rows(self, rows: Ints, precision: Precision | None = None) -> Tensor:
        """Return the float32 embeddings of the sentences with these numbers, shape (sentences, hidden)."""
        embeddings = torch.empty(len(rows), self.model.hidden_size)
        with prepare_for_scoring(self.model, precision or self.settings.evaluation_precision):
            for places in split_into_micro_batches(self.source.lengths[rows], TOKENS_AT_ONCE[self.device.type]):
                embeddings[places] = self.model(self.source.read(rows[places])).float().cpu()
        return embeddings


def sample_batch(seed: int, step: int, n_sentences: int, size: int) -> Ints:
    """Return the numbers of the sentences of batch `step`, shape (size,).

    An epoch consists of whole batches of one shuffled order, so no batch contains a sentence twice, as its own
    negative. The sentences that are left over differ from epoch to epoch.

    Example:
        >>> import numpy as np
        >>> epoch = np.concatenate([sample_batch(0, step, n_sentences=6, size=2) for step in range(3)])
        >>> sorted(epoch.tolist())
        [0, 1, 2, 3, 4, 5]
    """
    epoch, place = divmod(step, n_sentences // size)
    return _shuffle_epoch(seed, epoch, n_sentences)[place * size : (place + 1) * size]


@lru_cache(maxsize=1)
def _shuffle_epoch(seed: int, epoch: int, n_sentences: int) -> Ints:
    """Return the order of an epoch, shape (sentences,), drawn once for all its batches."""
    order: Ints = make_generator(seed, "order", epoch).permutation(n_sentences)
    order.setflags(write=False)
    return order
