"""Decides which trial runs next: searches, rounds, racing and budgets, independent of Ray."""
