"""Builds the W&B workspace of a study."""
