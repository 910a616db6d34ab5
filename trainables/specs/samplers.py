"""Negative samplers by name; the classes are in `trainables.data.negatives` and are imported on first use."""

from typing import Any

from trainables.utils.registry import Entry, Registry

SAMPLERS: Registry[Any] = Registry(
    Entry(
        "bm25",
        "trainables.data.negatives.bm25:Bm25Sampler",
        "the nearest documents by BM25, with exactly the scores of rank_bm25",
        "Robertson and Zaragoza (2009); rank_bm25",
        ("preset",),
    ),
    Entry(
        "random",
        "trainables.data.negatives.index_free:RandomSampler",
        "any documents of the pool, all with the same chance and without a score",
        "Penha and Hauff (2021), section 4",
    ),
    Entry(
        "dense",
        "trainables.data.negatives.dense:DenseSampler",
        "the nearest documents by the cosine similarity of a sentence encoder",
        "Reimers and Gurevych (2019); sentence-transformers",
        ("encoder",),
    ),
    Entry(
        "given",
        "trainables.data.negatives.index_free:GivenSampler",
        "the documents that the source lists for a query, in its order and with its scores",
        "the files of the task",
    ),
    options=("weak_label",),
)
"""Sampler name -> class, imported on first use, with the interface
`trainables.data.negatives.negative_sampler.NegativeSampler`."""
