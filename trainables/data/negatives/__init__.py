"""Negative samplers: which documents a query's relevant ones are ranked against."""
