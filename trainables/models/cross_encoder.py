"""BERT-like cross-encoder with a fresh head, or with that of a saved one.

Pointwise ranking with the [CLS] token: Nogueira and Cho (2019), as used by Penha and Hauff (2021), section 4.
"""

from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from trainables.models.dropout import NO_DROPOUT, Dropout, replace_dropouts
from trainables.models.packing import PackedBatch, PackedLayout
from trainables.models.transformer import Transformer, load_pretrained, make_linear, make_pooler
from trainables.specs.ranker import RankerModelSettings


class SavedHead(NamedTuple):
    """Head of a saved cross-encoder.

    Attributes:
        pooling: its input: the output of the first token, the mean over the tokens, or the cosine.
        layers: module that returns the score, shape (pairs, 1), of pooled outputs of shape (pairs, hidden), or (pairs,
            1) of a cosine.
    """

    pooling: Literal["first", "mean", "cosine"]
    layers: nn.Module


class CrossEncoder(Transformer):
    """Computes the logits of query-document pairs: (not relevant, relevant), or one that grows with relevance.

    Args:
        path: folder with the model's files.
        settings: layers, frozen layers, adapters, pooling, ranking score.
        seed: seed of the fresh head, of adapters, and of a fresh [CLS] pooler if the model has none.
        vocabulary_size: number of tokens that the model must know, see `load_pretrained`.
        outputs: logits of a pair, 2 or 1.
        saved: head of the model in `path`, in place of a fresh one. Its score is the only logit, or that of relevant
            next to 0 for not relevant.
    """

    def __init__(
        self,
        path: Path,
        settings: RankerModelSettings,
        seed: int,
        vocabulary_size: int = 0,
        outputs: int = 2,
        saved: SavedHead | None = None,
    ) -> None:
        base = load_pretrained(path, seed, vocabulary_size)
        super().__init__(base, settings, seed)
        self.saved, self.ranking_score = saved, settings.ranking_score
        self.pooling = saved.pooling if saved else settings.pooling
        self.pooler = make_pooler(base) if settings.pooling == "cls" else None
        self.outputs = outputs
        self.cosine_mean, self.cosine_std = 0.0, 1.0
        if saved:
            self.head: nn.Module = saved.layers
            replace_dropouts(self.head, self._dropout)
            return
        self.head = make_linear(base, 1 if settings.pooling == "cosine" else self.hidden_size, outputs)
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

        The frozen layers have no dropout; the output of the [CLS] and mean poolings has dropout. A saved head has it
        where its library has it.
        """
        pooled = self._pool(batch, dropout)
        with self._dropout.use(dropout):
            logits: Tensor = self.head(pooled)
        return nn.functional.pad(logits, (1, 0)) if self.saved and self.outputs == 2 else logits

    def _pool(self, batch: PackedBatch | PackedLayout, dropout: Dropout) -> Tensor:
        hidden, layout = self.encode(batch, dropout, first_only=self.pooling in ("cls", "first"))
        if self.pooler is not None:
            return dropout(self.pooler(hidden))
        if self.pooling == "first":
            return hidden
        if self.pooling == "mean":
            mean = layout.mean_pool(hidden)
            return mean if self.saved else dropout(mean)
        query, document = layout.mean_pool_parts(hidden)
        return (nn.functional.cosine_similarity(query, document, dim=1)[:, None] - self.cosine_mean) / self.cosine_std
