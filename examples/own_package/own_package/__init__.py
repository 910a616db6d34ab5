"""A package of your own: a task, a negative sampler, a schedule, a loss, a pacing function, a metric, a trainable.

Its `pyproject.toml` names the entries that `own_package.entries` contains. Nothing of the repository changes.
"""
