"""The difficulties of a prepared task's queries, computed once and kept with it.

`<cache>/prepared/<fingerprint>/difficulty/<score>-<key>.parquet`: split, query_id, difficulty, a row a query of every
split; the key is a digest of what the score depends on beside the data. Scores that a trained model makes have the test
split in `<score>-<key>-test.parquet`, which is made when the test set may be looked at.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from trainables.batches import Rows, instances
from trainables.checksums import checked_file, intact, present, verified
from trainables.claims import Claims
from trainables.common import digest
from trainables.curriculum_settings import CurriculumSettings
from trainables.data.prepared import Prepared
from trainables.difficulty import SCORES, ScoreName, of_text
from trainables.difficulty.confidence import bert_loss, bert_pred
from trainables.difficulty.embeddings import of_model
from trainables.difficulty.tables import table
from trainables.difficulty.vectors import KEY, digest_of, of_file
from trainables.errors import NoDifficultiesError, UserError
from trainables.job import Job
from trainables.storage import storage

if TYPE_CHECKING:
    from trainables.ranker_run import RankerRun
    from trainables.ranker_training import Pairs, RankerTrainer

Action = Literal["train", "test"]
_CONFIDENCE: dict[ScoreName, Callable[..., npt.NDArray[np.float64]]] = {"BERT_pred": bert_pred, "BERT_loss": bert_loss}
_SPLITS: dict[Action, tuple[str, ...]] = {"train": ("train", "dev"), "test": ("test",)}
"""What a scorer says of queries when it is trained, and when it is tested."""
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
    return _file(prepared, curriculum.score, _made_with(curriculum, model), action)


def read(prepared: Path, curriculum: CurriculumSettings, model: str) -> pd.DataFrame | None:
    """What is kept of a score: split, query_id, difficulty; None where there is nothing."""
    places = [file(prepared, curriculum, model)]
    if curriculum.score in _CONFIDENCE:
        places.append(file(prepared, curriculum, model, "test"))
    found = [pd.read_parquet(verified(place, unit=place)) for place in places if place.is_file()]
    return pd.concat(found, ignore_index=True) if found else None


def of_training(job: Job, prepared: Prepared, waited: Callable[[], None]) -> npt.NDArray[np.float64]:
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
    if settings.score in _CONFIDENCE:
        if not place.is_file():
            raise NoDifficultiesError(f"no difficulties by {settings.score} of the run that makes them")
        return
    claims = Claims(storage(str(job.cache / "claims")))
    name = f"difficulty-{prepared.fingerprint}-{place.stem}"
    claims.once(name, lambda: present(place), lambda: _make(job, settings, prepared, place), waited)


def keep(scorer: "RankerRun") -> Iterator[None]:
    """Writes how difficult queries are for a run that is trained, by each score of trained models: those of training
    and development, or of the test set where the run is tested.

    Of a training query it looks at one relevant document and as many others as in training, drawn by the run's seed; of
    a query that is evaluated, at all candidates. What is written already stays.

    Yields:
        After each split.
    """
    job, data, trainer = scorer.job, scorer.data, scorer.trained()
    places = {name: _file(data.prepared.folder, name, job.specification.id, job.action) for name in _CONFIDENCE}
    if all(intact(place, remove=True) for place in places.values()):
        return
    tables: dict[ScoreName, list[pd.DataFrame]] = {name: [] for name in _CONFIDENCE}
    for split in _SPLITS[job.action]:
        pairs = data.pairs(split)
        own = slice(pairs.first, pairs.first + len(pairs.relevant), pairs.candidates)
        ids = data.frame["query_id"].to_numpy()[own].tolist()
        rows = _looked_at(pairs, trainer) if split == "train" else np.arange(len(pairs.relevant)).reshape(len(ids), -1)
        scores = trainer.scores_of(pairs.first + rows.reshape(-1)).reshape(rows.shape)
        for name, made in tables.items():
            made.append(table(split, ids, _CONFIDENCE[name](scores, pairs.relevant[rows])))
        yield
    for name, made in tables.items():
        _write(places[name], pd.concat(made, ignore_index=True))


def _looked_at(pairs: "Pairs", trainer: "RankerTrainer") -> Rows:
    """(queries, 1 + negatives) rows."""
    counts = pairs.relevant.reshape(-1, pairs.candidates).sum(axis=1, dtype=np.int64)
    negatives, every = trainer.settings.negatives, np.arange(len(counts))
    rows = instances(trainer.seed, 0, every, counts, pairs.candidates, negatives, "difficulty ")
    return rows.reshape(-1, 1 + negatives)


def _make(job: Job, settings: CurriculumSettings, prepared: Prepared, place: Path) -> None:
    vectors = None
    if SCORES[settings.score].needs == "vectors":
        if job.vectors is not None and (found := digest_of(job.vectors)) != settings.vectors:
            raise UserError(KEY, f"{job.vectors.name} with {found}", f"the file of the study, {settings.vectors}")
        assert job.model_path is not None
        vectors = of_file(job.vectors) if job.vectors else of_model(job.model_path)
    _write(place, of_text(settings.score, prepared, vectors))


def _write(place: Path, made: pd.DataFrame) -> None:
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


def _file(prepared: Path, score: ScoreName, made_with: str | None, action: Action) -> Path:
    apart = "-test" if action == "test" else ""
    return prepared / "difficulty" / f"{score}-{digest([FORMAT, score, made_with])}{apart}.parquet"
