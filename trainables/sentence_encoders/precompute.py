"""Inputs shared by all runs: tokens and outputs of the frozen layers.

Processes that need them compute missing parts in parallel, one lease per part, until all parts exist.
"""

from collections.abc import Callable, Iterator

from trainables.sentence_encoders.runner import EncoderData
from trainables.specs.plugin import PrecomputeProgress
from trainables.specs.trial import TrialSpec


def precompute_inputs(trial: TrialSpec, on_wait: Callable[[], None] = lambda: None) -> Iterator[PrecomputeProgress]:
    """Compute the missing inputs together with other processes, until none is missing.

    Args:
        trial: any trial that needs them.
        on_wait: called repeatedly while other processes compute the remaining parts.

    Yields:
        Progress after each part that this process computes: parts that exist, and parts in total.
    """
    yield from EncoderData(trial).precompute(on_wait)
