"""A BERT-like cross-encoder with a fresh two-class head, split into a frozen lower and a trained upper part.

Pointwise ranking with the [CLS] token: Nogueira and Cho (2019), as used by Penha and Hauff (2021), section 4.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from trainables.dropout import Dropout
from trainables.packed import Batch, Layout, embedded, through
from trainables.randomness import counter
from trainables.specification import ModelSettings
from trainables.weights import check_architecture

_NONE = Dropout()


class CrossEncoder(nn.Module):
    """Logits (not relevant, relevant) of query-document pairs.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).
        settings: layers, frozen layers, pooling.
        seed: of the fresh head (and of a fresh [CLS] pooler where the model brings none).
        vocabulary: tokens that must be known; embeddings of those that the model lacks are drawn, the same for every
            seed, since frozen layers are shared.
    """

    def __init__(self, path: Path, settings: ModelSettings, seed: int, vocabulary: int = 0) -> None:
        super().__init__()
        torch.manual_seed(counter(seed, "head", 0))
        # In evaluation mode for good: dropout is `Dropout`, never the modules' own.
        base = AutoModel.from_pretrained(path, use_safetensors=True, local_files_only=True).eval()
        check_architecture(base.config.model_type)
        if vocabulary > base.config.vocab_size:
            with torch.random.fork_rng():
                torch.manual_seed(counter(0, "added tokens", 0))
                base.resize_token_embeddings(vocabulary, mean_resizing=False)
        layers = base.encoder.layer[: settings.layers]
        self.pooling = settings.pooling
        self.hidden = int(base.config.hidden_size)
        self.token_types = int(base.config.type_vocab_size)
        frozen = settings.frozen_layers > 0
        self.lower = nn.ModuleList([base.embeddings, *layers[: settings.frozen_layers]]) if frozen else None
        self.embeddings = None if frozen else base.embeddings
        self.upper = nn.ModuleList(layers[settings.frozen_layers :])
        self.pooler = base.pooler if settings.pooling == "cls" else None
        self.head = nn.Linear(1 if settings.pooling == "cosine" else self.hidden, 2)
        nn.init.normal_(self.head.weight, std=base.config.initializer_range)
        nn.init.zeros_(self.head.bias)
        self.centre, self.spread = 0.0, 1.0
        if settings.pooling == "cosine":
            with torch.no_grad():
                self.head.weight += torch.tensor([[-0.5], [0.5]])
        if self.lower is not None:
            self.lower.requires_grad_(False)

    def calibrate(self, batch: Batch) -> None:
        """Puts the cosines of these pairs, as they are before training, at mean 0 and standard deviation 1.

        Cosines of whole texts differ by hundredths; a head of ordinary size can use them only in units of their spread.
        Data-dependent initialisation as in Salimans and Kingma (2016), section 3. The head starts by ranking by cosine.
        """
        with torch.inference_mode():
            cosines = self._pooled(batch, _NONE)
        self.centre, self.spread = cosines.mean().item(), max(cosines.std().item(), 1e-6)

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def frozen_output(self, batch: Batch) -> Tensor:
        """What the embeddings and the frozen layers make of token ids: (tokens, hidden)."""
        assert self.lower is not None
        embeddings, *layers = self.lower
        inputs, layout = self._here(batch)
        with torch.inference_mode():
            hidden = embedded(embeddings, inputs, layout, self.token_types, _NONE)
            return through(layers, hidden, layout, _NONE)

    def forward(self, batch: Batch, dropout: Dropout = _NONE) -> Tensor:
        """Logits: (pairs, 2). The frozen part has no dropout; the [CLS] and mean poolings' output has."""
        logits: Tensor = self.head(self._pooled(batch, dropout))
        return logits

    def _here(self, batch: Batch) -> tuple[Tensor, Layout]:
        """Inputs and layout on the model's device."""
        batch = batch._replace(inputs=batch.inputs.to(self.head.weight.device))
        return batch.inputs, Layout(batch)

    def _pooled(self, batch: Batch, dropout: Dropout) -> Tensor:
        hidden, layout = self._here(batch)
        if self.embeddings is not None:
            hidden = embedded(self.embeddings, hidden, layout, self.token_types, dropout)
        hidden = through(list(self.upper), hidden, layout, dropout)
        if self.pooler is not None:
            return dropout(self.pooler(hidden[layout.first][:, None]))
        if self.pooling == "mean":
            return dropout(layout.mean(hidden))
        query, document = layout.means(hidden)
        return (nn.functional.cosine_similarity(query, document, dim=1)[:, None] - self.centre) / self.spread


def tokenizer(path: Path, added: tuple[str, ...] = ()) -> PreTrainedTokenizerBase:
    """The model's own tokenizer, which also knows the special tokens `added`."""
    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, local_files_only=True)
    made.add_tokens(list(added), special_tokens=True)
    return made
