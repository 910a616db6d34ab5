"""A BERT-like sentence encoder: a vector a sentence, compared by cosine.

Unsupervised SimCSE: Gao et al. (2021), sections 3 and 6.3.
"""

from pathlib import Path

import torch
from torch import Tensor

from trainables.models.dropout import NONE, Dropout
from trainables.models.packing import Batch, twice
from trainables.models.transformer import Transformer, fresh_layer, pretrained, redraw
from trainables.specs.sentence_encoder import EncoderSettings


class SentenceEncoder(Transformer):
    """Embeddings of sentences. The checkpoint's own pooler is not used.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).
        settings: layers, frozen layers, pooling.
        seed: of the dense layer of [CLS] pooling, which is for training alone, and of fresh layers.
    """

    def __init__(self, path: Path, settings: EncoderSettings, seed: int) -> None:
        base = pretrained(path, seed)
        super().__init__(base, settings)
        self.pooling = settings.pooling
        if settings.fresh_layers:
            redraw(self.upper[-settings.fresh_layers :], base.config.initializer_range, seed)
        self.head = fresh_layer(base, self.hidden, self.hidden) if settings.pooling == "cls" else None

    def views(self, batch: Batch, dropout: Dropout) -> tuple[Tensor, Tensor]:
        """Two embeddings of each sentence for the loss of training: (sentences, hidden) each.

        Both go through the trained layers in one pass, every element with a mask of its own; the frozen part has no
        dropout, so that it has but one output.

        Args:
            batch: token ids, or the frozen part's output where there is one.
            dropout: of this step.
        """
        pooled = self._pooled(twice(batch), dropout)
        if self.head is not None:
            pooled = torch.tanh(self.head(pooled))
        return pooled[0::2], pooled[1::2]

    def forward(self, batch: Batch) -> Tensor:
        """The embeddings: (sentences, hidden)."""
        return self._pooled(batch, NONE)

    def _pooled(self, batch: Batch, dropout: Dropout) -> Tensor:
        hidden, layout = self.encoded(batch, dropout)
        return layout.mean(hidden) if self.pooling == "mean" else hidden[layout.first]
