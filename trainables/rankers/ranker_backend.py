"""Training and evaluation of rankers: implements `trainables.specs.plugin.TrainingBackend`."""

import time
from collections.abc import Callable, Generator, Iterator

import numpy as np
import pandas as pd

from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.curriculum.difficulty_scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.data.ranking_dataset import RankingDataset
from trainables.difficulty.cache import Action, ensure_difficulties, get_difficulty_path, write_difficulties
from trainables.losses import LOSSES
from trainables.metrics import expected_calibration_error
from trainables.models.cross_encoder import CrossEncoder
from trainables.rankers.cosine_ranking import compute_cosines
from trainables.rankers.evaluation import EvaluatedDocuments
from trainables.rankers.ranker_run import RankerData, RankerRun, open_dataset
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.ranker import as_ranker_spec
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.training.batching import sample_instances
from trainables.training.frozen_features import InMemoryFeatures
from trainables.training.throughput import Workload, measure_workload
from trainables.utils.arrays import Floats
from trainables.utils.base_settings import require
from trainables.utils.checksums import is_intact

_MEASURED_PAIRS = 500
_SPLITS_BY_ACTION: dict[Action, tuple[str, ...]] = {"train": ("train", "dev"), "test": ("test",)}
"""Splits that are scored when the run is trained, and when it is tested."""


def precompute(trial: TrialSpec, on_wait: Callable[[], None] = lambda: None) -> Iterator[PrecomputeProgress]:
    """Compute tokens, outputs of the frozen layers and difficulty scores.

    A ranking that is not trained needs none of them.
    """
    if trial.specification.system == "cross-encoder":
        data = RankerData(trial)
        yield from data.precompute(on_wait)
        for collection in trial.collections:
            yield from RankerData(trial, collection).precompute(on_wait)
        if trial.action == "train":
            ensure_difficulties(trial, data.prepared, on_wait)


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> ActiveRun:
    """Start a run; a scoring run also saves the difficulty scores that other runs need."""
    if trial.specification.system != "cross-encoder":
        return ReferenceRankingRun(trial)
    return (_DifficultyModelRun if trial.saves_difficulty else RankerRun)(trial, on_wait)


def load_scored_pairs(trial: TrialSpec, split: str) -> pd.DataFrame:
    """Return the documents that the scores of a split, or of a collection, are of.

    See `RankingDataset.read_evaluated`.
    """
    collection = next((each for each in trial.collections if each.label == split), None)
    return open_dataset(trial, collection).read_evaluated("test" if collection else split)


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Return the expected calibration error of the candidates, for scores from which a probability follows."""
    specification = as_ranker_spec(trial.specification)
    model, loss = specification.model, LOSSES[specification.variant.loss]
    is_logit = specification.system == "cross-encoder" and loss.has_probabilities
    if not (is_logit and model is not None and model.ranking_score == "difference"):
        return {}
    is_scored = scores > -np.inf
    return {"ECE": expected_calibration_error(scores[is_scored], frame["relevant"].to_numpy()[is_scored])}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of a run on the first training pairs, see `measure_workload`."""
    specification, data = as_ranker_spec(trial.specification), RankerData(trial)
    training = require(specification.training)
    data.tokenize_once(lambda: None)
    pairs = data.select_pairs("train")
    pairs = pairs.select_queries(0, max(_MEASURED_PAIRS // int(pairs.rows.sizes[0]), 2 * training.batch_size))
    rows = pairs.first_row + np.arange(len(pairs.relevant))
    segment = Segment(0, training.instances, specification.variant.to_unsmoothed())

    def make_workload(model: CrossEncoder, features: InMemoryFeatures) -> Workload:
        if require(specification.model).pooling == "cosine":
            model.standardize_cosine(features.read(rows))
        trainer = RankerTrainer(model, training, 0, features)
        return Workload(
            trainer, lambda until: trainer.train(segment, until, pairs), lambda: len(trainer.score_pairs(pairs))
        )

    return measure_workload(trial, seconds, data, rows, make_workload)


class ReferenceRankingRun:
    """A run of a ranking that is not trained, for every trainable of a ranking task.

    It is that of the first stage for retrieved candidates, and of BM25 for sampled ones, with every sampler. Or it is
    that of the model before training, by the cosine.
    """

    instances_seen = 0

    def __init__(self, trial: TrialSpec) -> None:
        self._trial = trial
        self.history: list[dict[str, float]] = []

    def advance(self) -> TrialResult:
        """Return the result of the ranking."""
        start, split = time.monotonic(), "dev" if self._trial.action == "train" else "test"
        scores, evaluated = self._rank(open_dataset(self._trial), split)
        others = {
            each.label: self._rank(open_dataset(self._trial, each), "test")[0] for each in self._trial.collections
        }
        value, seconds = evaluated.compute_metric(self._trial.metric, scores), round(time.monotonic() - start, 3)
        return TrialResult(split, value, scores, [], None, None, 0, 0, 0, [], [], seconds, others)

    def _rank(self, prepared: RankingDataset, split: str) -> tuple[Floats, EvaluatedDocuments]:
        """Return the scores of all evaluated documents of a split, and the documents."""
        if self._trial.specification.system == "cosine":
            scores = compute_cosines(self._trial, prepared, prepared.read_candidates(split))
        else:
            column = "score" if prepared.settings.is_retrieved(split) else "bm25"
            scores = prepared.read_candidates(split, [column])[column].to_numpy(dtype=float)
        evaluated = EvaluatedDocuments(prepared.read_evaluated(split), len(scores))
        return evaluated.add_missed(scores), evaluated

    def close(self) -> None:
        """Do nothing, since no lease is held."""


class _DifficultyModelRun(RankerRun):
    """A run that saves difficulty scores before its run record exists."""

    def _train_and_evaluate(self) -> Generator[TrialResult | None]:
        for result in super()._train_and_evaluate():
            if result is not None:
                yield from save_difficulty_scores(self)
            yield result


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
    folder, model = data.prepared.folder, require(trial.specification.model).name
    orders = {name: CurriculumSettings(score=name, scorer=trial.specification.id) for name in scores}
    paths = {name: get_difficulty_path(folder, order, model, trial.action) for name, order in orders.items()}
    splits = [name for name in _SPLITS_BY_ACTION[trial.action] if not data.prepared.settings.is_retrieved(name)]
    if not splits or all(is_intact(path, remove_damaged=True) for path in paths.values()):
        return
    tables: dict[DifficultyScoreName, list[pd.DataFrame]] = {name: [] for name in scores}
    for split in splits:
        pairs = data.select_pairs(split)
        ids = data.prepared.read_query_ids(split)
        if split == "train":
            negatives, queries = trainer.settings.negatives, np.arange(len(pairs.rows))
            rows = sample_instances(trainer.seed, 0, queries, pairs.rows, negatives, "difficulty ")
        else:
            rows = np.arange(len(pairs.relevant))
        rows = rows.reshape(len(ids), -1)
        logits = trainer.compute_log_odds(pairs.first_row + rows.reshape(-1)).reshape(rows.shape)
        for name, parts in tables.items():
            values = DIFFICULTY_SCORES[name].compute(logits, pairs.relevant[rows])
            parts.append(pd.DataFrame({"split": split, "query_id": ids, "difficulty": values}))
        yield
    for name, parts in tables.items():
        write_difficulties(paths[name], pd.concat(parts, ignore_index=True))
