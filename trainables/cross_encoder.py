"""A BERT-like cross-encoder with a fresh two-class head, split into a frozen lower and a trained upper part.

Pointwise ranking with the [CLS] token: Nogueira and Cho (2019), as used by Penha and Hauff (2021), section 4.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from trainables.errors import UserError
from trainables.randomness import counter
from trainables.specification import ModelSettings


class Batch(NamedTuple):
    """Pairs, padded at the end. `inputs` is token ids (pairs, tokens), or what the frozen layers made of them
    (pairs, tokens, hidden)."""

    inputs: Tensor
    lengths: Tensor  # (pairs,) tokens of each pair
    starts: Tensor  # (pairs,) where the document's tokens begin


class CrossEncoder(nn.Module):
    """Logits (not relevant, relevant) of query-document pairs.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).
        settings: layers, frozen layers, pooling.
        dropout: probability, everywhere; the frozen part has none.
        seed: of the fresh head (and of a fresh [CLS] pooler where the model brings none).
    """

    def __init__(self, path: Path, settings: ModelSettings, dropout: float, seed: int) -> None:
        super().__init__()
        torch.manual_seed(counter(seed, "head", 0))
        rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        base = AutoModel.from_pretrained(path, use_safetensors=True, local_files_only=True, **rates)
        for part in ("embeddings", "encoder", "pooler"):
            if not hasattr(base, part):
                raise UserError("model.name", type(base).__name__, "an encoder of the BERT or RoBERTa family")
        layers = base.encoder.layer[: settings.layers]
        self.pooling = settings.pooling
        self.padding = int(base.config.pad_token_id or 0)
        self.hidden = int(base.config.hidden_size)
        self.token_types = int(base.config.type_vocab_size)
        frozen = settings.frozen_layers > 0
        self.lower = nn.ModuleList([base.embeddings, *layers[: settings.frozen_layers]]) if frozen else None
        self.embeddings = None if frozen else base.embeddings
        self.upper = nn.ModuleList(layers[settings.frozen_layers :])
        self.pooler = base.pooler if settings.pooling == "cls" else None
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(1 if settings.pooling == "cosine" else self.hidden, 2)
        nn.init.normal_(self.head.weight, std=base.config.initializer_range)
        nn.init.zeros_(self.head.bias)
        self.centre, self.spread = 0.0, 1.0
        if settings.pooling == "cosine":
            with torch.no_grad():
                self.head.weight += torch.tensor([[-0.5], [0.5]])
        if self.lower is not None:
            self.lower.requires_grad_(False)

    def train(self, mode: bool = True) -> "CrossEncoder":
        """Training mode for the upper part; the frozen part stays a fixed feature extractor."""
        super().train(mode)
        if self.lower is not None:
            self.lower.eval()
        return self

    def calibrate(self, batch: Batch) -> None:
        """Puts the cosines of these pairs, as they are before training, at mean 0 and standard deviation 1.

        Cosines of whole texts differ by hundredths; a head of ordinary size can use them only in units of their spread.
        Data-dependent initialisation as in Salimans and Kingma (2016), section 3. The head starts by ranking by cosine.
        """
        self.eval()
        with torch.inference_mode():
            cosines = self._pooled(self._hidden(batch), batch)
        self.centre, self.spread = cosines.mean().item(), max(cosines.std().item(), 1e-6)

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def frozen_output(self, batch: Batch) -> Tensor:
        """What the embeddings and the frozen layers make of token ids: (pairs, tokens, hidden)."""
        assert self.lower is not None
        embeddings, *layers = self.lower
        with torch.inference_mode():
            return self._through(layers, self._embedded(embeddings, batch), batch)

    def forward(self, batch: Batch) -> Tensor:
        """Logits: (pairs, 2)."""
        logits: Tensor = self.head(self._pooled(self._hidden(batch), batch))
        return logits

    def _hidden(self, batch: Batch) -> Tensor:
        embedded = batch.inputs if self.embeddings is None else self._embedded(self.embeddings, batch)
        return self._through(list(self.upper), embedded, batch)

    def _embedded(self, embeddings: nn.Module, batch: Batch) -> Tensor:
        positions = torch.arange(batch.inputs.shape[1])
        types = (positions >= batch.starts[:, None]) & (positions < batch.lengths[:, None])
        kinds = types.long().clamp(max=self.token_types - 1)  # RoBERTa has one type only
        embedded: Tensor = embeddings(input_ids=batch.inputs, token_type_ids=kinds)
        return embedded

    def _through(self, layers: list[nn.Module], hidden: Tensor, batch: Batch) -> Tensor:
        inside = torch.arange(hidden.shape[1]) < batch.lengths[:, None]  # (pairs, tokens)
        mask = torch.zeros(inside.shape).masked_fill(~inside, torch.finfo(torch.float32).min)[:, None, None, :]
        for layer in layers:
            hidden = layer(hidden, mask)
        return hidden

    def _pooled(self, hidden: Tensor, batch: Batch) -> Tensor:
        if self.pooler is not None:
            pooled: Tensor = self.dropout(self.pooler(hidden))
            return pooled
        positions = torch.arange(hidden.shape[1])
        inside = positions < batch.lengths[:, None]
        document = inside & (positions >= batch.starts[:, None])
        if self.pooling == "mean":
            mean: Tensor = self.dropout(_mean(hidden, inside))
            return mean
        query, answer = _mean(hidden, inside & ~document), _mean(hidden, document)
        return (nn.functional.cosine_similarity(query, answer, dim=1)[:, None] - self.centre) / self.spread


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask[..., None].to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1)


def tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """The model's own tokenizer."""
    return AutoTokenizer.from_pretrained(path, local_files_only=True)
