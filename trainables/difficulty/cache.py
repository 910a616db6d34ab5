"""Computes the difficulty scores of a prepared task's queries once and stores them with the task.

The file `<cache>/prepared/<fingerprint>/difficulty/<score>-<key>.parquet` has columns split, query_id and difficulty,
with one row per query of every split. The key is a digest of what the score depends on in addition to the data. If a
trained model computes the score, the test split is in `<score>-<key>-test.parquet`. That file is written when the test
set may be used.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from trainables.curriculum.curriculum_settings import CurriculumSettings, DifficultyWords
from trainables.curriculum.difficulty_scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import SPLITS
from trainables.difficulty.inputs import build_difficulty_inputs
from trainables.difficulty.word_vectors import (
    VECTORS_KEY,
    WordVectors,
    hash_vectors_file,
    load_vectors_from_file,
    load_vectors_from_model,
)
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.storage.leases import Leases
from trainables.utils.arrays import Floats
from trainables.utils.base_settings import require
from trainables.utils.checksums import has_checksum, verify_file, write_with_checksum
from trainables.utils.errors import MissingDifficultyScoresError, UserError
from trainables.utils.hashing import hash_json

Action = Literal["train", "test"]
DECIMALS = 9
"""Number of decimals that difficulties are rounded to."""
FORMAT = 1
"""Part of every key. Increase it when the same input gives different difficulties. Then also increase
`ARITHMETIC_VERSION`, because the ids of runs do not depend on this number."""


def get_difficulty_path(
    folder: Path, curriculum: CurriculumSettings, model_digest: str, action: Action = "train"
) -> Path:
    """Return the path of a score's table, which need not exist yet.

    Args:
        folder: Folder of the prepared task.
        curriculum: Settings that contain the score and its inputs.
        model_digest: Digest of the model. Its embeddings are the word vectors if the settings contain no others.
        action: "train" for the main table. "test" for the table of the test split alone, which exists only for scores
            that a trained model computes.
    """
    score, needs = curriculum.score, DIFFICULTY_SCORES[curriculum.score].needs
    score_input = {"vectors": curriculum.vectors or model_digest, "scorer": curriculum.scorer}.get(needs)
    if curriculum.words != "plain" and needs in ("bm25", "vectors"):
        score_input = f"{score_input} {curriculum.words}"
    plugin = DIFFICULTY_SCORES.find_plugin(score)
    key = hash_json([FORMAT, score, score_input, *([plugin] if plugin else [])])
    return folder / "difficulty" / f"{score}-{key}{'-test' if action == 'test' else ''}.parquet"


def read_difficulties(folder: Path, curriculum: CurriculumSettings, model_digest: str) -> pd.DataFrame | None:
    """Return the stored table of a score with columns split, query_id and difficulty, or None."""
    paths = [get_difficulty_path(folder, curriculum, model_digest)]
    if DIFFICULTY_SCORES[curriculum.score].needs == "scorer":
        paths.append(get_difficulty_path(folder, curriculum, model_digest, "test"))
    tables = [pd.read_parquet(verify_file(path, unit=path)) for path in paths if path.is_file()]
    return pd.concat(tables, ignore_index=True) if tables else None


def load_training_difficulties(trial: TrialSpec, prepared: RankingDataset, on_wait: Callable[[], None]) -> Floats:
    """Return the difficulties of the training queries, computing them if necessary.

    Returns:
        Difficulties of shape (training queries,), in the order of the candidates. They are all 0 if the score is
        "random".

    Raises:
        MissingDifficultyScoresError: If the scoring run must compute them and has not done so.
    """
    queries = prepared.read_candidates("train")["query_id"].drop_duplicates()
    if DIFFICULTY_SCORES[require(trial.specification.curriculum).score].needs == "nothing":
        return np.zeros(len(queries))
    ensure_difficulties(trial, prepared, on_wait)
    path = _get_job_path(trial, prepared)
    table = pd.read_parquet(verify_file(path, unit=path))
    difficulties = table[table["split"] == "train"].set_index("query_id")["difficulty"]
    return difficulties.loc[queries].to_numpy(dtype=np.float64)


def ensure_difficulties(trial: TrialSpec, prepared: RankingDataset, on_wait: Callable[[], None]) -> None:
    """Compute the difficulties that a trial's curriculum needs, unless they exist.

    If another process is computing them, wait for it.

    Raises:
        MissingDifficultyScoresError: If the scoring run must compute them and has not done so.
        UserError: If the file of word vectors is not that of the study, or as `compute_text_difficulties` does.
    """
    settings = trial.specification.curriculum
    if settings is None or DIFFICULTY_SCORES[settings.score].needs == "nothing":
        return
    path = _get_job_path(trial, prepared)
    if DIFFICULTY_SCORES[settings.score].needs == "scorer":
        if not path.is_file():
            raise MissingDifficultyScoresError(f"no difficulties by {settings.score} from the scoring run")
        return
    leases = Leases(open_storage(str(trial.cache / "claims")))
    name = f"difficulty-{prepared.fingerprint}-{path.stem}"
    leases.run_once(
        name, lambda: has_checksum(path), lambda: _compute_and_write(trial, settings, prepared, path), on_wait
    )


def _compute_and_write(trial: TrialSpec, settings: CurriculumSettings, prepared: RankingDataset, path: Path) -> None:
    vectors = None
    if DIFFICULTY_SCORES[settings.score].needs == "vectors":
        if trial.vectors is not None and (digest := hash_vectors_file(trial.vectors)) != settings.vectors:
            raise UserError(
                VECTORS_KEY, f"{trial.vectors.name} with {digest}", f"the file of the study, {settings.vectors}"
            )
        model_path = require(trial.model_path)
        vectors = load_vectors_from_file(trial.vectors) if trial.vectors else load_vectors_from_model(model_path)
    write_difficulties(path, compute_text_difficulties(settings.score, prepared, vectors, settings.words))


def compute_text_difficulties(
    score: DifficultyScoreName,
    prepared: RankingDataset,
    vectors: WordVectors | None = None,
    words: DifficultyWords = "plain",
) -> pd.DataFrame:
    """Compute the difficulty of every query from its texts, as Penha and Hauff (2020), section 3.

    Queries with candidates of a first stage have none, since these may lack the relevant document. The values are
    rounded to 9 decimals, so that the order of the queries does not depend on the processor.

    Args:
        score: Name of a score in `DIFFICULTY_SCORES` that needs "text", "bm25" or "vectors".
        prepared: Prepared data of the task, which has dialogues if the score is turns.
        vectors: Word vectors, if the score needs them.
        words: Words of a text, see `CurriculumSettings.words`.

    Returns:
        Table with columns split, query_id and difficulty: one row per query, in the order of
        `prepared.read_candidates()`.

    Raises:
        UserError: If the score needs BM25 and no candidate contains a word, or if word vectors are not finite.
    """
    needs, parts = DIFFICULTY_SCORES[score].needs, []
    for split in (name for name in SPLITS if not prepared.settings.is_retrieved(name)):
        inputs = build_difficulty_inputs(prepared, split, words)
        further = {"bm25": prepared.settings.get_sampler_settings(split), "vectors": vectors}
        values = DIFFICULTY_SCORES[score].compute(inputs, *([further[needs]] if needs in further else []))
        table = {"split": split, "query_id": inputs.query_ids, "difficulty": np.round(values, DECIMALS)}
        parts.append(pd.DataFrame(table))
    return pd.concat(parts, ignore_index=True)


def write_difficulties(path: Path, table: pd.DataFrame) -> None:
    """Write the table of a score."""
    with write_with_checksum(path) as draft:
        table.to_parquet(draft, index=False)


def _get_job_path(trial: TrialSpec, prepared: RankingDataset) -> Path:
    curriculum, model = require(trial.specification.curriculum), require(trial.specification.model)
    return get_difficulty_path(prepared.folder, curriculum, model.name)
