"""A tiny world of sentence encoders on disk: two random models and prepared sentences. A run takes a second."""

from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from tests.sts import write_settings
from tests.trainables.small import share_cache, write_bert, write_roberta
from trainables.data.sentence_dataset import SentenceDataset, prepare_data
from trainables.models.pretrained import hash_model_files
from trainables.specs.environment import detect_environment
from trainables.specs.plugin import get_trainable
from trainables.specs.sentence_encoder import EncoderRunSpec, NoiseSmoothing
from trainables.specs.trial import TrialSpec

BATCH_SIZE, BATCHES = 8, 4
TOTAL = BATCHES * BATCH_SIZE
FORK_POINTS = (BATCH_SIZE, 2 * BATCH_SIZE, 3 * BATCH_SIZE)
TRAINING = {"instances": TOTAL, "batch_size": BATCH_SIZE, "learning_rate": 1e-3, "evaluations": 2, "precision": "fp32"}

SIMCSE = NoiseSmoothing()
GS = NoiseSmoothing(distribution="gaussian", multiple=3.0, weight=1.0)
T_GS = GS.model_copy(update={"schedule": "two_stage", "switch": 0.5})
FROZEN = {"frozen_layers": 1}

_numbers = count()


class Encoders(NamedTuple):
    """Models and prepared sentences, which all runs of a test share."""

    bert: Path
    roberta: Path
    prepared: SentenceDataset

    def path(self, family: str) -> Path:
        """The model of a family."""
        return self.bert if family == "bert" else self.roberta

    def fresh(self) -> Path:
        """A cache without stages, which shares everything else."""
        shared = self.prepared.folder.parents[1]
        return share_cache(shared, shared.parent / f"cache-{next(_numbers)}")


def write_encoders(place: Path) -> Encoders:
    """Writes models and data; takes some seconds."""
    prepared = prepare_data(write_settings(place), place / "shared")
    table = prepared.read_pairs()
    texts = [*prepared.read_sentences(), *table["first"], *table["second"]]
    return Encoders(write_bert(place / "bert"), write_roberta(place / "roberta", texts), prepared)


def job(
    encoders: Encoders,
    cache: Path,
    variant: NoiseSmoothing = SIMCSE,
    model: dict[str, Any] | None = None,
    path: Path | None = None,
    fork_points: tuple[int, ...] = FORK_POINTS,
    action: str = "train",
    seed: int = 1,
    interval: float = 60.0,
    **training: Any,
) -> TrialSpec:
    """A run of the tiny world as a job; its precompute is done."""
    path = path or encoders.bert
    specification = EncoderRunSpec.model_validate(
        {
            "task": encoders.prepared.settings,
            "data": encoders.prepared.fingerprint,
            "model": {"name": hash_model_files(path), **(model or {})},
            "training": TRAINING | training,
            "variant": variant.canonicalize(),
            "seed": seed,
            "environment": detect_environment(),
        }
    )
    settings = {"action": action, "metric": "STS", "cache": cache, "model_path": path, "fork_points": fork_points}
    made = TrialSpec.model_validate({"specification": specification, "checkpoint_interval": interval, **settings})
    for _ in get_trainable(specification).training_backend.precompute(made, lambda: None):
        pass
    return made
