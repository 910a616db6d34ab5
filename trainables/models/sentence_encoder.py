"""BERT-like sentence encoder: one vector per sentence, compared by cosine.

Unsupervised SimCSE: Gao et al. (2021), sections 3 and 6.3.
"""

from pathlib import Path

import torch
from torch import Tensor

from trainables.models.dropout import NO_DROPOUT, Dropout
from trainables.models.packing import PackedBatch, PackedLayout
from trainables.models.transformer import Transformer, load_pretrained, make_linear, reinitialize
from trainables.specs.sentence_encoder import EncoderModelSettings


class SentenceEncoder(Transformer):
    """Computes embeddings of sentences; the pooler of the pretrained model is not used.

    Args:
        path: folder with the model's files.
        settings: layers, frozen layers, adapters, fresh layers, pooling.
        seed: seed of the fresh layers, of adapters, and of the dense layer of [CLS] pooling, which only training uses.
    """

    def __init__(self, path: Path, settings: EncoderModelSettings, seed: int) -> None:
        base = load_pretrained(path, seed)
        super().__init__(base, settings, seed)
        self.pooling = settings.pooling
        if settings.reinit_layers:
            reinitialize(self.upper[-settings.reinit_layers :], base.config.initializer_range, seed)
        self.head = make_linear(base, self.hidden_size, self.hidden_size) if settings.pooling == "cls" else None

    def encode_views(self, batch: PackedBatch | PackedLayout, dropout: Dropout) -> tuple[Tensor, Tensor]:
        """Return two embeddings of each sentence for the training loss, shape (sentences, hidden) each.

        The batch has every sentence twice, as `duplicate_pairs` returns it. Both views go through the trained layers in
        one pass, and every element has its own dropout mask. The frozen layers have no dropout, so their output is the
        same for both views. The views may also be two texts, such as a query and its document.
        """
        pooled = self._pool(batch, dropout)
        if self.head is not None:
            pooled = torch.tanh(self.head(pooled))
        return pooled[0::2], pooled[1::2]

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return the embeddings, shape (sentences, hidden)."""
        return self._pool(batch, NO_DROPOUT)

    def _pool(self, batch: PackedBatch | PackedLayout, dropout: Dropout) -> Tensor:
        hidden, layout = self.encode(batch, dropout, first_only=self.pooling == "cls")
        return layout.mean_pool(hidden) if self.pooling == "mean" else hidden
