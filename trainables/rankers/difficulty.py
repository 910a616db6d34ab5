"""Scores how difficult each query is for a trained ranker, for the curricula that need it."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from trainables.curriculum.scores import ScoreName
from trainables.difficulty.cache import MODEL_SCORES, Action, score_file, write_table
from trainables.difficulty.compute import table
from trainables.rankers.runner import RankerRun
from trainables.rankers.trainer import Pairs, RankerTrainer
from trainables.training.batching import instances
from trainables.utils.arrays import Ints
from trainables.utils.checksums import intact

_SPLITS: dict[Action, tuple[str, ...]] = {"train": ("train", "dev"), "test": ("test",)}
"""The splits that are scored when the run is trained, and when it is tested."""


def save_model_scores(scorer: RankerRun) -> Iterator[None]:
    """Writes how difficult queries are for a run that is trained, by each score of trained models: those of training
    and development, or of the test set where the run is tested.

    Of a training query it looks at one relevant document and as many others as in training, drawn by the run's seed; of
    a query that is evaluated, at all candidates. What is written already stays.

    Yields:
        After each split.
    """
    job, data, trainer = scorer.job, scorer.data, scorer.trained()
    places = {name: score_file(data.prepared.folder, name, job.specification.id, job.action) for name in MODEL_SCORES}
    if all(intact(place, remove=True) for place in places.values()):
        return
    tables: dict[ScoreName, list[pd.DataFrame]] = {name: [] for name in MODEL_SCORES}
    for split in _SPLITS[job.action]:
        pairs = data.pairs(split)
        own = slice(pairs.first, pairs.first + len(pairs.relevant), pairs.candidates)
        ids = data.frame["query_id"].to_numpy()[own].tolist()
        rows = _looked_at(pairs, trainer) if split == "train" else np.arange(len(pairs.relevant)).reshape(len(ids), -1)
        scores = trainer.scores_of(pairs.first + rows.reshape(-1)).reshape(rows.shape)
        for name, made in tables.items():
            made.append(table(split, ids, MODEL_SCORES[name](scores, pairs.relevant[rows])))
        yield
    for name, made in tables.items():
        write_table(places[name], pd.concat(made, ignore_index=True))


def _looked_at(pairs: Pairs, trainer: RankerTrainer) -> Ints:
    """(queries, 1 + negatives) rows."""
    counts = pairs.relevant.reshape(-1, pairs.candidates).sum(axis=1, dtype=np.int64)
    negatives, every = trainer.settings.negatives, np.arange(len(counts))
    rows = instances(trainer.seed, 0, every, counts, pairs.candidates, negatives, "difficulty ")
    return rows.reshape(-1, 1 + negatives)
