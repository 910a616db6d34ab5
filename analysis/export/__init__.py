"""Results in the formats of other programs: Optuna, TREC, W&B."""
