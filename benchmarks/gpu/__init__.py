"""Checks and measurements of a GPU; a pretend one stands in for it where there is none."""
