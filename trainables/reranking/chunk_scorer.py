"""Scores chunks of pairs with one saved cross-encoder, or with the mean of several.

The scores of a chunk depend on its pairs, the models, the precision, the number of threads and the kind of processor.
They do not depend on the process or on other chunks.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainables.exchange.classifier import Classifier, load_classifier
from trainables.models.precision import Precision, prepare_for_scoring
from trainables.specs.environment import TOKENS_AT_ONCE
from trainables.text.tokens import TokenizedTexts
from trainables.training.batching import split_into_micro_batches
from trainables.training.frozen_features import make_token_batch
from trainables.training.process import prepare_process

Scores = npt.NDArray[np.float32]


class ChunkScorer:
    """Computes scores; the models stay in memory.

    Raises:
        UserError: as `load_classifier` does.
    """

    def __init__(self, paths: Sequence[Path], precision: Precision, threads: int) -> None:
        prepare_process(threads)
        self._models: list[Classifier] = [load_classifier(path) for path in paths]
        self._precision: Precision = precision

    def score(self, chunk: TokenizedTexts) -> Scores:
        """Return the score of each pair, the mean over the models, shape (pairs,)."""
        total = np.zeros(len(chunk))
        with ExitStack() as stack:
            for model in self._models:
                stack.enter_context(prepare_for_scoring(model.encoder, self._precision))
            for rows in split_into_micro_batches(chunk.lengths, TOKENS_AT_ONCE["cpu"]):
                batch = make_token_batch(chunk, rows)
                for model in self._models:
                    total[rows] += model(batch).double().numpy()
        return (total / len(self._models)).astype(np.float32)
