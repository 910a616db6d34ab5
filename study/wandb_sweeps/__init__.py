"""W&B sweeps of a study: exports them and runs their configurations."""
