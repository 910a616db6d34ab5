"""Checks in addition to the declared comparisons: collapsed seeds, and groups of systems."""
