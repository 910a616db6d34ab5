"""A trainable of your own: a linear scorer of random points. A study of it takes seconds.

- `specification`: the settings of a run, and the plugin that names the two backends;
- `data`: the data backend;
- `backend`, `run`, `scorer`: the training backend, a run in progress, the model;
- `study_type`: what a study may set, vary and compare.
"""

from own_package.logistic.study_type import STUDY_TYPE

__all__ = ["STUDY_TYPE"]
