"""Decides which trial runs next: searches, rounds, racing and budgets, independent of Ray.

`study_scheduler` leads a study through search, confirmation and test; `search_loop` runs the search of one system in
rounds; `queue` orders the trials that may start.
"""
