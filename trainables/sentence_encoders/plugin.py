"""How runs of sentence encoders are trained and evaluated: what `trainables.specs.plugin.Runs` asks for."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from trainables.sentence_encoders import throughput as encoder_calibration
from trainables.sentence_encoders.runner import EncoderRun, SentenceData, encoder
from trainables.specs.job import Job
from trainables.specs.plugin import Parts, Rates, Running
from trainables.storage import open_storage
from trainables.storage.locks import Claims
from trainables.training.runner import fix_arithmetic
from trainables.utils.arrays import Ints
from trainables.utils.checksums import intact


def groundwork(job: Job, waited: Callable[[], None]) -> Iterator[Parts]:
    """Token ids, which one process makes while the others wait, then what the frozen layers make of them."""
    data, place = SentenceData(job), open_storage(str(job.cache / "claims"))
    folder = data.tokens_folder
    Claims(place).once(folder.name, lambda: intact(folder), lambda: data.sentences, waited)
    model, training = job.specification.model, job.specification.training
    if model and training and model.frozen_layers:
        fix_arithmetic(training.threads)
        yield from data.features.completed(lambda: encoder(job, 0), place, waited)


def begin(job: Job, waited: Callable[[], None]) -> Running:
    """The run."""
    return EncoderRun(job, waited)


def scored(job: Job, split: str) -> pd.DataFrame:
    """query_id, document_id, relevant, pair_id of the pairs."""
    return SentenceData(job).pairs(split)


def embedded(job: Job, rows: Ints) -> npt.NDArray[np.float32]:
    """(sentences, hidden) embeddings of the sentences with these numbers, by the run as it ends.

    Args:
        job: the run; it is trained if need be.
        rows: numbers of sentences; those for training are the first.
    """
    for _ in groundwork(job, lambda: None):
        pass
    run = EncoderRun(job)
    while run.advance() is None:
        pass
    made: npt.NDArray[np.float32] = run.trainer.embeddings(rows).numpy()
    return made


def measured(job: Job, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Nothing."""
    return {}


def rates(job: Job, seconds: float) -> Rates:
    """How fast the run is here."""
    return encoder_calibration.rates(job, seconds)
