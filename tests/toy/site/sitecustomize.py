"""On a PYTHONPATH this adds the toy's line to the registry of trainables, in every process that Python starts."""

from search_spaces.registry import KINDS

KINDS["toy"] = "tests.toy.space"
