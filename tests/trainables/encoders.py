"""A tiny world of sentence encoders on disk: two random models and prepared sentences. A run takes a second."""

from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from tests.sts import write_settings
from tests.trainables.small import write_bert, write_roberta
from trainables.data.sentence_dataset import PreparedSentences, prepare
from trainables.models.pretrained import files_digest
from trainables.specs.environment import current
from trainables.specs.job import Job
from trainables.specs.plugin import of
from trainables.specs.sentence_encoder import EncoderSpecification, NoiseSettings

BATCH_SIZE, BATCHES = 8, 4
TOTAL = BATCHES * BATCH_SIZE
CUTS = (BATCH_SIZE, 2 * BATCH_SIZE, 3 * BATCH_SIZE)
TRAINING = {
    "instances": TOTAL,
    "batch_size": BATCH_SIZE,
    "learning_rate": 1e-3,
    "evaluations": 2,
    "precision": "fp32",
}

SIMCSE = NoiseSettings()
GS = NoiseSettings(distribution="gaussian", multiple=3.0, weight=1.0)
T_GS = GS.model_copy(update={"schedule": "two_stage", "switch": 0.5})
FROZEN = {"frozen_layers": 1}

_numbers = count()


class Encoders(NamedTuple):
    """What all runs of a test share."""

    bert: Path
    roberta: Path
    prepared: PreparedSentences

    def path(self, family: str) -> Path:
        """The model of a family."""
        return self.bert if family == "bert" else self.roberta

    def fresh(self) -> Path:
        """A cache without stages, which shares everything else."""
        shared = self.prepared.folder.parents[1]
        place = shared.parent / f"cache-{next(_numbers)}"
        for name in ("prepared", "tokens", "features"):
            (shared / name).mkdir(exist_ok=True)
            place.mkdir(exist_ok=True)
            (place / name).symlink_to(shared / name)
        return place


def write_encoders(place: Path) -> Encoders:
    """Writes models and data; takes some seconds."""
    prepared = prepare(write_settings(place), place / "shared")
    table = prepared.pairs()
    texts = [*prepared.sentences(), *table["first"], *table["second"]]
    return Encoders(write_bert(place / "bert"), write_roberta(place / "roberta", texts), prepared)


def job(
    encoders: Encoders,
    cache: Path,
    variant: NoiseSettings = SIMCSE,
    model: dict[str, Any] | None = None,
    path: Path | None = None,
    cuts: tuple[int, ...] = CUTS,
    action: str = "train",
    seed: int = 1,
    **training: Any,
) -> Job:
    """A run of the tiny world as a job; its groundwork is done."""
    path = path or encoders.bert
    specification = EncoderSpecification.model_validate(
        {
            "task": encoders.prepared.settings,
            "data": encoders.prepared.fingerprint,
            "model": {"name": files_digest(path), **(model or {})},
            "training": TRAINING | training,
            "variant": variant.normalised(),
            "seed": seed,
            "environment": current(),
        }
    )
    settings = {"action": action, "metric": "STS", "cache": cache, "model_path": path, "cuts": cuts}
    made = Job.model_validate({"specification": specification, **settings})
    for _ in of(specification).runs.groundwork(made, lambda: None):
        pass
    return made
