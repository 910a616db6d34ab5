"""Negative samplers: they choose the non-relevant documents among the candidates of a query."""
