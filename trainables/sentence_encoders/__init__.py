"""The sentence-encoder trainable: its data, its training, its runs."""

from trainables.specs.plugin import TrainablePlugin
from trainables.specs.sentence_encoder import EncoderRunSpec

TRAINABLE = TrainablePlugin(
    EncoderRunSpec,
    training_module="trainables.sentence_encoders.encoder_backend",
    data_module="trainables.sentence_encoders.encoder_data",
    export_module="trainables.sentence_encoders.encoder_export",
)
