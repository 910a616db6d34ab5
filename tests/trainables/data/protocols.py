"""Protocols of negative samplers that no preset has."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from trainables.specs.ranking_task import PROTOCOLS, SamplerProtocol


@contextmanager
def use_protocol(**values: Any) -> Iterator[None]:
    """Gives the samplers without a preset this protocol."""
    with patch.dict(PROTOCOLS, {None: SamplerProtocol(**values)}):
        yield
