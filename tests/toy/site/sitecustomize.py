"""On a PYTHONPATH this adds the toy's line to the registry of trainables, in every process that Python starts."""

from search_spaces.registry import STUDY_TYPES

STUDY_TYPES["toy"] = "tests.toy.space"
