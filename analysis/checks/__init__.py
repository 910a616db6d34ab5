"""Checks beside the declared comparisons: collapsed seeds, and groups of systems."""
