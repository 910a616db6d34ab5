"""Adds the trainable to the registry, in every process that Python starts with this folder on its PYTHONPATH.

A trainable in the repository has this line in `search_spaces/registry.py` instead.
"""

from search_spaces.registry import STUDY_TYPES

STUDY_TYPES["logistic"] = "logistic.study_type"
