"""Checks and measurements of a GPU, which a processor stands in for where there is none."""
