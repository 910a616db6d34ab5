"""The sentence encoder as a trainable."""

from trainables.encoder_specification import EncoderSpecification
from trainables.trainable import Trainable

TRAINABLE = Trainable(EncoderSpecification, runs_module="trainables.encoding", data_module="trainables.sentence_data")
