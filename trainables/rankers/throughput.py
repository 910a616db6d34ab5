"""Throughput of a ranker's run on this machine, measured on the first pairs of the real data."""

import numpy as np

from trainables.models.cross_encoder import CrossEncoder
from trainables.rankers.runner import RankerData
from trainables.rankers.trainer import RankerTrainer
from trainables.specs.checkpoints import Segment
from trainables.specs.plugin import Throughput
from trainables.specs.ranker import as_ranker_spec
from trainables.specs.trial import TrialSpec
from trainables.training.frozen_features import InMemoryFeatures
from trainables.training.throughput import Workload, measure_workload

_N_PAIRS = 500


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of a run, as `trainables.training.throughput.measure_workload` describes."""
    specification = as_ranker_spec(trial.specification)
    assert specification.training is not None
    training, data = specification.training, RankerData(trial)
    data.tokenize_once(lambda: None)
    pairs = data.select_pairs("train")
    n_queries = max(_N_PAIRS // int(pairs.rows.sizes[0]), 2 * training.batch_size)
    pairs = pairs.select_queries(0, n_queries)
    rows = pairs.first_row + np.arange(len(pairs.relevant))
    segment = Segment(0, training.instances, specification.variant.to_unsmoothed())

    def make_workload(model: CrossEncoder, features: InMemoryFeatures) -> Workload:
        if model.pooling == "cosine":
            model.standardize_cosine(features.read(rows))
        trainer = RankerTrainer(model, training, 0, features)
        return Workload(
            trainer, lambda until: trainer.train(segment, until, pairs), lambda: len(trainer.score_pairs(pairs))
        )

    return measure_workload(trial, seconds, data, rows, lambda: data.load_model(seed=0), make_workload)
