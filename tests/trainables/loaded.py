"""Imported by the process that forks those of tests.trainables.processes: all that a run loads, without a thread."""

import torch
import torch._dynamo  # by the first optimizer
from transformers import AutoModel, BertModel, PreTrainedTokenizerFast

import trainables.rankers.ranker_backend
import trainables.sentence_encoders.encoder_backend

torch.set_num_threads(1)
LOADED = (
    AutoModel,
    BertModel,
    PreTrainedTokenizerFast,
    trainables.sentence_encoders.encoder_backend,
    trainables.rankers.ranker_backend,
)
