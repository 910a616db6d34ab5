"""Checks beside the declared comparisons: collapsed seeds, verdicts without the worst seeds, and groups of systems."""
