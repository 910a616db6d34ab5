"""Prepared datasets and their token arrays, cached by fingerprint.

`ranking_sampling` runs the negative samplers of `negatives` in several processes.
"""
