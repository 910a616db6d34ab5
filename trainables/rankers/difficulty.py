"""Difficulty scores of the queries for a trained ranker, for the curricula that need them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.difficulty.cache import Action, get_score_path, write_difficulties
from trainables.difficulty.compute import build_difficulty_table
from trainables.rankers.ranker_run import RankerRun
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer
from trainables.training.batching import sample_instances
from trainables.utils.arrays import Ints
from trainables.utils.checksums import is_intact

_SPLITS_BY_ACTION: dict[Action, tuple[str, ...]] = {"train": ("train", "dev"), "test": ("test",)}
"""Splits that are scored when the run is trained, and when it is tested."""


def save_difficulty_scores(run: RankerRun) -> Iterator[None]:
    """Write the difficulty scores of the queries for a trained run, one table per score of trained models.

    A run that is trained scores the training and development queries; a run that is tested scores the test queries. For
    a training query the score uses one relevant document and as many negatives as in training, drawn by the run's seed.
    For an evaluated query it uses all candidates; if a first stage retrieved them, it has no score, since they may lack
    the relevant document. Tables that exist already are not changed.

    Yields:
        None after each split.
    """
    trial, data, trainer = run.trial, run.data, run.trainer
    scores = [name for name, score in DIFFICULTY_SCORES.items() if score.needs == "scorer"]
    paths = {name: get_score_path(data.prepared.folder, name, trial.specification.id, trial.action) for name in scores}
    splits = [name for name in _SPLITS_BY_ACTION[trial.action] if not data.prepared.settings.is_retrieved(name)]
    if not splits or all(is_intact(path, remove_damaged=True) for path in paths.values()):
        return
    tables: dict[DifficultyScoreName, list[pd.DataFrame]] = {name: [] for name in scores}
    for split in splits:
        pairs = data.select_pairs(split)
        ids = data.prepared.read_query_ids(split)
        if split == "train":
            rows = _sample_training_rows(pairs, trainer)
        else:
            rows = np.arange(len(pairs.relevant)).reshape(len(ids), -1)
        logits = trainer.compute_log_odds(pairs.first_row + rows.reshape(-1)).reshape(rows.shape)
        for name, parts in tables.items():
            values = DIFFICULTY_SCORES[name].compute(logits, pairs.relevant[rows])
            parts.append(build_difficulty_table(split, ids, values))
        yield
    for name, parts in tables.items():
        write_difficulties(paths[name], pd.concat(parts, ignore_index=True))


def _sample_training_rows(pairs: Pairs, trainer: RankerTrainer) -> Ints:
    """Return the rows of the sampled pairs, shape (queries, 1 + negatives)."""
    negatives, queries = trainer.settings.negatives, np.arange(len(pairs.rows))
    rows = sample_instances(trainer.seed, 0, queries, pairs.rows, negatives, "difficulty ")
    return rows.reshape(-1, 1 + negatives)
