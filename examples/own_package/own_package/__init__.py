"""Plug-in: a task, a negative sampler, a schedule, a loss, a pacing function and a metric of your own.

A study file names it: `plugins = ["own_package"]`. Each module registers what it defines. The trainable is a plug-in of
its own, `own_package.logistic`.
"""

from own_package import faq, jaccard, losses, metrics, pacing, schedules

__all__ = ["faq", "jaccard", "losses", "metrics", "pacing", "schedules"]
