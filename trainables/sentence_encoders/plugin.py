"""How runs of sentence encoders are trained and evaluated: what `trainables.specs.plugin.Runs` asks for."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from trainables.sentence_encoders import throughput as encoder_calibration
from trainables.sentence_encoders.runner import EncoderData, EncoderRun, load_model
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.storage.leases import Leases
from trainables.training.runner import enable_determinism
from trainables.utils.arrays import Ints
from trainables.utils.checksums import is_intact


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Token ids, which one process makes while the others wait, then what the frozen layers make of them."""
    data, place = EncoderData(trial), open_storage(str(trial.cache / "claims"))
    folder = data.tokens_folder
    Leases(place).run_once(folder.name, lambda: is_intact(folder), lambda: data.sentences, on_wait)
    model, training = trial.specification.model, trial.specification.training
    if model and training and model.frozen_layers:
        enable_determinism(training.threads)
        yield from data.features.compute_missing(lambda: load_model(trial, 0), place, on_wait)


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> ActiveRun:
    """The run."""
    return EncoderRun(trial, on_wait)


def load_scored_pairs(trial: TrialSpec, split: str) -> pd.DataFrame:
    """query_id, document_id, relevant, pair_id of the pairs."""
    return EncoderData(trial).select_pairs(split)


def embed_sentences(trial: TrialSpec, rows: Ints) -> npt.NDArray[np.float32]:
    """(sentences, hidden) embeddings of the sentences with these numbers, by the run as it ends.

    Args:
        job: the run; it is trained if need be.
        rows: numbers of sentences; those for training are the first.
    """
    for _ in precompute(trial, lambda: None):
        pass
    run = EncoderRun(trial)
    while run.advance() is None:
        pass
    made: npt.NDArray[np.float32] = run.trainer.embed_rows(rows).numpy()
    return made


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Nothing."""
    return {}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """How fast the run is here."""
    return encoder_calibration.measure_throughput(trial, seconds)
