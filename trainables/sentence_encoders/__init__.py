"""The sentence-encoder trainable: its data, its training, its runs."""

from trainables.specs.plugin import Trainable
from trainables.specs.sentence_encoder import EncoderSpecification

TRAINABLE = Trainable(
    EncoderSpecification,
    runs_module="trainables.sentence_encoders.plugin",
    data_module="trainables.sentence_encoders.data",
)
