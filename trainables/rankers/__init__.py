"""The cross-encoder trainable: its data, its training, its runs."""

from trainables.specs.plugin import TrainablePlugin
from trainables.specs.ranker import RankerRunSpec

TRAINABLE = TrainablePlugin(
    RankerRunSpec,
    training_module="trainables.rankers.ranker_backend",
    data_module="trainables.rankers.ranker_data",
    export_module="trainables.rankers.ranker_export",
)
