"""Exports results to the formats of other programs: Optuna, TREC and W&B."""
