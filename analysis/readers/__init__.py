"""Reads the results of a study from run records, offline W&B files or a W&B server."""
