"""Decides which trial runs next: searches, rounds, racing, budgets. Knows nothing of Ray."""
