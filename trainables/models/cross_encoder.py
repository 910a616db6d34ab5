"""BERT-like cross-encoder with a fresh head.

Pointwise ranking with the [CLS] token: Nogueira and Cho (2019), as used by Penha and Hauff (2021), section 4.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from trainables.models.dropout import NO_DROPOUT, Dropout
from trainables.models.packing import PackedBatch, PackedLayout
from trainables.models.transformer import Transformer, load_pretrained, make_linear, make_pooler
from trainables.specs.ranker import RankerModelSettings


class CrossEncoder(Transformer):
    """Computes the logits of query-document pairs: (not relevant, relevant), or one that grows with relevance.

    Args:
        path: folder with the model's files.
        settings: layers, frozen layers, pooling, ranking score.
        seed: seed of the fresh head, and of a fresh [CLS] pooler if the model has none.
        vocabulary_size: number of tokens that the model must know, see `load_pretrained`.
        outputs: logits of a pair, 2 or 1.
    """

    def __init__(
        self, path: Path, settings: RankerModelSettings, seed: int, vocabulary_size: int = 0, outputs: int = 2
    ) -> None:
        base = load_pretrained(path, seed, vocabulary_size)
        super().__init__(base, settings)
        self.pooling, self.ranking_score = settings.pooling, settings.ranking_score
        self.pooler = make_pooler(base) if settings.pooling == "cls" else None
        self.outputs = outputs
        self.head = make_linear(base, 1 if settings.pooling == "cosine" else self.hidden_size, outputs)
        self.cosine_mean, self.cosine_std = 0.0, 1.0
        if settings.pooling == "cosine":
            with torch.no_grad():
                self.head.weight += torch.tensor([[-0.5], [0.5]] if outputs == 2 else [[1.0]])

    def standardize_cosine(self, batch: PackedBatch) -> None:
        """Scale the cosines of these pairs, before training, to mean 0 and standard deviation 1.

        Cosines of whole texts differ by hundredths, so a head of ordinary size can use them only in units of their
        spread. The initialisation is data-dependent, as in Salimans and Kingma (2016), section 3. The head starts by
        ranking by cosine.
        """
        with torch.inference_mode():
            cosines = self._pool(batch, NO_DROPOUT)
        self.cosine_mean, self.cosine_std = cosines.mean().item(), max(cosines.std().item(), 1e-6)

    def forward(self, batch: PackedBatch | PackedLayout, dropout: Dropout = NO_DROPOUT) -> Tensor:
        """Return the logits of the pairs, shape (pairs, outputs).

        The frozen layers have no dropout; the output of the [CLS] and mean poolings has dropout.
        """
        logits: Tensor = self.head(self._pool(batch, dropout))
        return logits

    def _pool(self, batch: PackedBatch | PackedLayout, dropout: Dropout) -> Tensor:
        hidden, layout = self.encode(batch, dropout, first_only=self.pooler is not None)
        if self.pooler is not None:
            return dropout(self.pooler(hidden))
        if self.pooling == "mean":
            return dropout(layout.mean_pool(hidden))
        query, document = layout.mean_pool_parts(hidden)
        return (nn.functional.cosine_similarity(query, document, dim=1)[:, None] - self.cosine_mean) / self.cosine_std
