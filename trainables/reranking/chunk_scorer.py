"""Scores chunks of pairs with one saved cross-encoder, or with the mean of several.

The scores of a chunk depend on its pairs, the models, the precision, and the kind of GPU or the kind of processor and
its threads. They do not depend on the process or on other chunks.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainables.exchange.classifier import Classifier, load_classifier
from trainables.models.precision import Precision, prepare_for_scoring
from trainables.specs.environment import TOKENS_AT_ONCE, DeviceType
from trainables.text.tokens import TokenizedTexts
from trainables.training.batching import split_into_micro_batches
from trainables.training.frozen_features import make_token_batch
from trainables.training.process import prepare_process
from trainables.utils.errors import MachineError
from trainables.worker.gpu_errors import classify_gpu_error

Scores = npt.NDArray[np.float32]


class ChunkScorer:
    """Computes scores; the models stay in memory.

    Args:
        device: "cpu", or "cuda" for the first GPU that this process sees.

    Raises:
        UserError: as `load_classifier` does.
        MachineError: the GPU fails, or has too little memory.
    """

    def __init__(self, paths: Sequence[Path], precision: Precision, threads: int, device: DeviceType = "cpu") -> None:
        prepare_process(threads)
        self._precision: Precision = precision
        self._device: DeviceType = device
        with _report_gpu_fault():
            self._models: list[Classifier] = [load_classifier(path).to(device) for path in paths]

    def score(self, chunk: TokenizedTexts) -> Scores:
        """Return the score of each pair, the mean over the models, shape (pairs,).

        Raises:
            MachineError: the GPU fails, or has too little memory.
        """
        total = np.zeros(len(chunk))
        with ExitStack() as stack:
            stack.enter_context(_report_gpu_fault())
            for model in self._models:
                stack.enter_context(prepare_for_scoring(model.encoder, self._precision))
            for rows in split_into_micro_batches(chunk.lengths, TOKENS_AT_ONCE[self._device]):
                batch = make_token_batch(chunk, rows)
                for model in self._models:
                    total[rows] += model(batch).double().cpu().numpy()
        return (total / len(self._models)).astype(np.float32)


@contextmanager
def _report_gpu_fault() -> Iterator[None]:
    """Report a fault of the GPU, or its lack of memory, in one line; any other error is passed on."""
    try:
        yield
    except RuntimeError as error:
        if classify_gpu_error(error) is None:
            raise
        raise MachineError(f"a GPU failed while it scored pairs ({str(error).splitlines()[0]})") from error
