"""The cross-encoder as a trainable."""

from trainables.specification import RunSpecification
from trainables.trainable import Trainable

TRAINABLE = Trainable(RunSpecification, runs_module="trainables.ranking", data_module="trainables.ranking_data")
