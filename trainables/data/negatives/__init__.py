"""Negative samplers: they choose the non-relevant documents among the candidates of a query.

A sampler (`bm25`, `dense`, `index_free`) scores the documents of a `pool`; `selection` chooses by these scores;
`candidates` makes the candidate lists and weak labels of it.
"""
