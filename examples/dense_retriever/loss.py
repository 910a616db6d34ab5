"""Loss of in-batch negatives: the softmax over the cosines of a query with all documents of the batch.

Karpukhin et al. (2020), Dense Passage Retrieval. With epsilon = 0 it is MultipleNegativesRankingLoss of
sentence-transformers. Label smoothing: Szegedy et al. (2016).
"""

import torch
from torch import Tensor, nn


def smoothed_in_batch_loss(queries: Tensor, documents: Tensor, temperature: float, epsilon: float = 0.0) -> Tensor:
    """Return the mean loss of the queries of a batch.

    The target of a query is 1 - epsilon for its document, plus epsilon / N for each of the N documents.

    Args:
        queries: (N, hidden) embeddings.
        documents: (N, hidden) embeddings of a relevant document of each query.
        temperature: Divisor of the cosines.
        epsilon: Strength of the smoothing, from 0 to 1.

    Example:
        >>> vectors = torch.eye(2)
        >>> [round(smoothed_in_batch_loss(vectors, vectors, 1.0, epsilon).item(), 4) for epsilon in (0.0, 0.5)]
        [0.3133, 0.5633]
    """
    logits = nn.functional.normalize(queries, dim=1) @ nn.functional.normalize(documents, dim=1).T / temperature
    own = torch.arange(len(queries), device=queries.device)
    return nn.functional.cross_entropy(logits, own, label_smoothing=epsilon)
