"""The cross-encoder trainable: its data, its training, its runs."""

from trainables.specs.plugin import Trainable
from trainables.specs.ranker import RunSpecification

TRAINABLE = Trainable(RunSpecification, runs_module="trainables.rankers.plugin", data_module="trainables.rankers.data")
