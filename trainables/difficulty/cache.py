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

from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.curriculum.settings import CurriculumSettings
from trainables.data.ranking_dataset import RankingDataset
from trainables.difficulty.compute import compute_text_difficulties
from trainables.difficulty.model_scores import bert_loss, bert_pred
from trainables.difficulty.word_vectors import (
    VECTORS_KEY,
    hash_vectors_file,
    load_vectors_from_file,
    load_vectors_from_model,
)
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.storage.leases import Leases
from trainables.utils.arrays import Floats
from trainables.utils.checksums import has_checksum, verify_file, write_with_checksum
from trainables.utils.errors import MissingDifficultyScoresError, UserError
from trainables.utils.hashing import hash_json

Action = Literal["train", "test"]
MODEL_SCORES: dict[DifficultyScoreName, Callable[..., Floats]] = {"BERT_pred": bert_pred, "BERT_loss": bert_loss}
FORMAT = 1
"""Part of every key: raised when the same input would give other difficulties, and `ARITHMETIC` with it, since runs are
not named by it."""


def get_difficulty_path(
    folder: Path, curriculum: CurriculumSettings, model_digest: str, action: Action = "train"
) -> Path:
    """Where a score's table lies, once it is made.

    Args:
        prepared: folder of the prepared task.
        curriculum: its score, and what that is made with.
        model: digest of the model, whose embeddings are the word vectors where no others are named.
        action: "test": the table of the test split alone, of scores that a trained model makes.
    """
    return get_score_path(folder, curriculum.score, _get_score_input(curriculum, model_digest), action)


def read_difficulties(folder: Path, curriculum: CurriculumSettings, model_digest: str) -> pd.DataFrame | None:
    """What is kept of a score: split, query_id, difficulty; None where there is nothing."""
    paths = [get_difficulty_path(folder, curriculum, model_digest)]
    if curriculum.score in MODEL_SCORES:
        paths.append(get_difficulty_path(folder, curriculum, model_digest, "test"))
    tables = [pd.read_parquet(verify_file(path, unit=path)) for path in paths if path.is_file()]
    return pd.concat(tables, ignore_index=True) if tables else None


def load_training_difficulties(trial: TrialSpec, prepared: RankingDataset, on_wait: Callable[[], None]) -> Floats:
    """(training queries,) difficulties in the order of the candidates; all equal where the order is to be random."""
    queries = prepared.read_candidates("train")["query_id"].drop_duplicates()
    assert trial.specification.curriculum is not None
    if DIFFICULTY_SCORES[trial.specification.curriculum.score].needs == "nothing":
        return np.zeros(len(queries))
    ensure_difficulties(trial, prepared, on_wait)
    path = _get_job_path(trial, prepared)
    table = pd.read_parquet(verify_file(path, unit=path))
    own = table[table["split"] == "train"].set_index("query_id")["difficulty"]
    return own.loc[queries].to_numpy(dtype=np.float64)


def ensure_difficulties(trial: TrialSpec, prepared: RankingDataset, on_wait: Callable[[], None]) -> None:
    """Makes the difficulties that a run's curriculum needs, unless they are there or somebody else is at it.

    Args:
        job: any run.
        prepared: its task.
        waited: called again and again while somebody else makes them.

    Raises:
        NoDifficultiesError: a trained model makes them, and has not.
    """
    settings = trial.specification.curriculum
    if settings is None or DIFFICULTY_SCORES[settings.score].needs == "nothing":
        return
    path = _get_job_path(trial, prepared)
    if settings.score in MODEL_SCORES:
        if not path.is_file():
            raise MissingDifficultyScoresError(f"no difficulties by {settings.score} of the run that makes them")
        return
    claims = Leases(open_storage(str(trial.cache / "claims")))
    name = f"difficulty-{prepared.fingerprint}-{path.stem}"
    claims.run_once(
        name, lambda: has_checksum(path), lambda: _compute_and_write(trial, settings, prepared, path), on_wait
    )


def _compute_and_write(trial: TrialSpec, settings: CurriculumSettings, prepared: RankingDataset, path: Path) -> None:
    vectors = None
    if DIFFICULTY_SCORES[settings.score].needs == "vectors":
        if trial.vectors is not None and (found := hash_vectors_file(trial.vectors)) != settings.vectors:
            raise UserError(
                VECTORS_KEY, f"{trial.vectors.name} with {found}", f"the file of the study, {settings.vectors}"
            )
        assert trial.model_path is not None
        vectors = load_vectors_from_file(trial.vectors) if trial.vectors else load_vectors_from_model(trial.model_path)
    write_difficulties(path, compute_text_difficulties(settings.score, prepared, vectors))


def write_difficulties(path: Path, table: pd.DataFrame) -> None:
    with write_with_checksum(path) as draft:
        table.to_parquet(draft, index=False)


def _get_job_path(trial: TrialSpec, prepared: RankingDataset) -> Path:
    specification = trial.specification
    assert specification.curriculum is not None
    assert specification.model is not None
    return get_difficulty_path(prepared.folder, specification.curriculum, specification.model.name)


def _get_score_input(curriculum: CurriculumSettings, model_digest: str) -> str | None:
    needs = DIFFICULTY_SCORES[curriculum.score].needs
    return {"vectors": curriculum.vectors or model_digest, "scorer": curriculum.scorer}.get(needs)


def get_score_path(folder: Path, score: DifficultyScoreName, score_input: str | None, action: Action) -> Path:
    suffix = "-test" if action == "test" else ""
    return folder / "difficulty" / f"{score}-{hash_json([FORMAT, score, score_input])}{suffix}.parquet"
