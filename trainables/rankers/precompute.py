"""Inputs shared by all runs: tokens, outputs of the frozen layers and difficulty scores.

Processes that need them compute missing parts in parallel, one lease per part, until all parts exist.
"""

from collections.abc import Callable, Iterator

from trainables.difficulty.cache import ensure_difficulties
from trainables.rankers.runner import RankerData, load_model
from trainables.specs.plugin import PrecomputeProgress
from trainables.specs.ranker import as_ranker_spec
from trainables.specs.trial import TrialSpec
from trainables.training.runner import enable_determinism


def precompute_inputs(trial: TrialSpec, on_wait: Callable[[], None] = lambda: None) -> Iterator[PrecomputeProgress]:
    """Compute the missing inputs together with other processes, until none is missing.

    Args:
        trial: any trial that needs them.
        on_wait: called repeatedly while other processes compute the remaining parts.

    Yields:
        Progress after each part that this process computes: parts that exist, and parts in total.
    """
    data = RankerData(trial)
    data.tokenize_once(on_wait)
    specification = as_ranker_spec(trial.specification)
    assert specification.model is not None
    assert specification.training is not None
    if specification.model.frozen_layers:  # they are the same for every seed
        enable_determinism(specification.training.threads)
        yield from data.features.compute_missing(lambda: load_model(trial, 0), data.lease_storage, on_wait)
    if trial.action == "train":
        ensure_difficulties(trial, data.prepared, on_wait)
