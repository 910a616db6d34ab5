"""The difficulties of a prepared task's queries, computed once and kept with it.

`<cache>/prepared/<fingerprint>/difficulty/<score>-<key>.parquet`: split, query_id, difficulty, a row a query of every
split; the key is a digest of what the score depends on beside the data. Scores that a trained model makes have the test
split in `<score>-<key>-test.parquet`, which is made when the test set may be looked at.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from trainables.curriculum.scores import SCORES, ScoreName
from trainables.curriculum.settings import CurriculumSettings
from trainables.data.ranking_dataset import Prepared
from trainables.difficulty.compute import of_text
from trainables.difficulty.model_scores import bert_loss, bert_pred
from trainables.difficulty.word_vectors import KEY, digest_of, of_file, of_model
from trainables.specs.job import Job
from trainables.storage import open_storage
from trainables.storage.locks import Claims
from trainables.utils.arrays import Floats
from trainables.utils.checksums import checked_file, present, verified
from trainables.utils.errors import NoDifficultiesError, UserError
from trainables.utils.hashing import digest

Action = Literal["train", "test"]
MODEL_SCORES: dict[ScoreName, Callable[..., Floats]] = {"BERT_pred": bert_pred, "BERT_loss": bert_loss}
FORMAT = 1
"""Part of every key: raised when the same input would give other difficulties, and `ARITHMETIC` with it, since runs are
not named by it."""


def file(prepared: Path, curriculum: CurriculumSettings, model: str, action: Action = "train") -> Path:
    """Where a score's table lies, once it is made.

    Args:
        prepared: folder of the prepared task.
        curriculum: its score, and what that is made with.
        model: digest of the model, whose embeddings are the word vectors where no others are named.
        action: "test": the table of the test split alone, of scores that a trained model makes.
    """
    return score_file(prepared, curriculum.score, _made_with(curriculum, model), action)


def read(prepared: Path, curriculum: CurriculumSettings, model: str) -> pd.DataFrame | None:
    """What is kept of a score: split, query_id, difficulty; None where there is nothing."""
    places = [file(prepared, curriculum, model)]
    if curriculum.score in MODEL_SCORES:
        places.append(file(prepared, curriculum, model, "test"))
    found = [pd.read_parquet(verified(place, unit=place)) for place in places if place.is_file()]
    return pd.concat(found, ignore_index=True) if found else None


def of_training(job: Job, prepared: Prepared, waited: Callable[[], None]) -> Floats:
    """(training queries,) difficulties in the order of the candidates; all equal where the order is to be random."""
    queries = prepared.candidates("train")["query_id"].drop_duplicates()
    assert job.specification.curriculum is not None
    if SCORES[job.specification.curriculum.score].needs == "nothing":
        return np.zeros(len(queries))
    ensure(job, prepared, waited)
    place = _of_job(job, prepared)
    kept = pd.read_parquet(verified(place, unit=place))
    own = kept[kept["split"] == "train"].set_index("query_id")["difficulty"]
    return own.loc[queries].to_numpy(dtype=np.float64)


def ensure(job: Job, prepared: Prepared, waited: Callable[[], None]) -> None:
    """Makes the difficulties that a run's curriculum needs, unless they are there or somebody else is at it.

    Args:
        job: any run.
        prepared: its task.
        waited: called again and again while somebody else makes them.

    Raises:
        NoDifficultiesError: a trained model makes them, and has not.
    """
    settings = job.specification.curriculum
    if settings is None or SCORES[settings.score].needs == "nothing":
        return
    place = _of_job(job, prepared)
    if settings.score in MODEL_SCORES:
        if not place.is_file():
            raise NoDifficultiesError(f"no difficulties by {settings.score} of the run that makes them")
        return
    claims = Claims(open_storage(str(job.cache / "claims")))
    name = f"difficulty-{prepared.fingerprint}-{place.stem}"
    claims.once(name, lambda: present(place), lambda: _make(job, settings, prepared, place), waited)


def _make(job: Job, settings: CurriculumSettings, prepared: Prepared, place: Path) -> None:
    vectors = None
    if SCORES[settings.score].needs == "vectors":
        if job.vectors is not None and (found := digest_of(job.vectors)) != settings.vectors:
            raise UserError(KEY, f"{job.vectors.name} with {found}", f"the file of the study, {settings.vectors}")
        assert job.model_path is not None
        vectors = of_file(job.vectors) if job.vectors else of_model(job.model_path)
    write_table(place, of_text(settings.score, prepared, vectors))


def write_table(place: Path, made: pd.DataFrame) -> None:
    with checked_file(place) as draft:
        made.to_parquet(draft, index=False)


def _of_job(job: Job, prepared: Prepared) -> Path:
    specification = job.specification
    assert specification.curriculum is not None
    assert specification.model is not None
    return file(prepared.folder, specification.curriculum, specification.model.name)


def _made_with(curriculum: CurriculumSettings, model: str) -> str | None:
    needs = SCORES[curriculum.score].needs
    return {"vectors": curriculum.vectors or model, "scorer": curriculum.scorer}.get(needs)


def score_file(prepared: Path, score: ScoreName, made_with: str | None, action: Action) -> Path:
    apart = "-test" if action == "test" else ""
    return prepared / "difficulty" / f"{score}-{digest([FORMAT, score, made_with])}{apart}.parquet"
