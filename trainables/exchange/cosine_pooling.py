"""Cosine of a query and a document that were encoded jointly, as a module of sentence-transformers.

The file stands alone: it is copied into the folder of an exported model, and users of that need not have this project.
"""

from typing import Any

import torch
from sentence_transformers.base.modules import Module
from torch import Tensor


class CosinePooling(Module):
    """Computes the cosine between the mean of a pair's query tokens and the mean of its document tokens.

    The special tokens before the document count as the query's, those after it as the document's.

    Args:
        separator: token id of the separator between query and document.
        n_separators: number of these tokens between query and document.
    """

    config_keys = ["separator", "n_separators"]  # noqa: RUF012

    def __init__(self, separator: int, n_separators: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.separator, self.n_separators = separator, n_separators

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add `sentence_embedding` of shape (pairs, 1), for padding on the right."""
        hidden, inside = features["token_embeddings"], features["attention_mask"].bool()
        is_separator = features["input_ids"] == self.separator
        is_separator[:, 0] = False  # some models begin with the token that separates
        start = is_separator.int().argmax(dim=1, keepdim=True) + self.n_separators  # (pairs, 1)
        is_query = torch.arange(hidden.shape[1], device=hidden.device) < start  # (pairs, tokens)
        query, document = (_compute_mean(hidden, inside & part) for part in (is_query, ~is_query))
        cosine = torch.nn.functional.cosine_similarity(query, document, dim=1)
        return features | {"sentence_embedding": cosine[:, None]}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the configuration; the module has no weights."""
        self.save_config(output_path)


def _compute_mean(hidden: Tensor, chosen: Tensor) -> Tensor:
    """Return the mean over the chosen tokens of each pair, (pairs, hidden)."""
    weights = chosen[:, :, None].to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)
