"""Prepared datasets and their token arrays, cached by fingerprint."""
