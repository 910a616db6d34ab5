"""Inputs shared by all runs: tokens, outputs of the frozen layers and difficulty scores.

Processes that need them compute missing parts in parallel, one lease per part, until all parts exist.
"""

from collections.abc import Callable, Iterator

from trainables.difficulty.cache import ensure_difficulties
from trainables.models.cross_encoder import CrossEncoder
from trainables.rankers.runner import RankerData, count_vocabulary
from trainables.specs.plugin import PrecomputeProgress
from trainables.specs.ranker import as_ranker_spec
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.storage.leases import Leases
from trainables.training.runner import enable_determinism
from trainables.utils.checksums import is_intact


def precompute_inputs(trial: TrialSpec, on_wait: Callable[[], None] = lambda: None) -> Iterator[PrecomputeProgress]:
    """Compute the missing inputs together with other processes, until none is missing.

    Args:
        trial: any trial that needs them.
        on_wait: called repeatedly while other processes compute the remaining parts.

    Yields:
        Progress after each part that this process computes: parts that exist, and parts in total.
    """
    data, lease_storage = RankerData(trial), open_storage(str(trial.cache / "claims"))
    leases = Leases(lease_storage)
    leases.run_once(data.tokens_folder.name, lambda: is_intact(data.tokens_folder), lambda: data.tokens, on_wait)
    assert trial.specification.model is not None
    if trial.specification.model.frozen_layers:
        yield from data.features.compute_missing(lambda: _load_frozen_model(trial), lease_storage, on_wait)
    if trial.action == "train":
        ensure_difficulties(trial, data.prepared, on_wait)


def _load_frozen_model(trial: TrialSpec) -> CrossEncoder:
    """Return a model with the frozen layers, which are the same for every seed."""
    specification = as_ranker_spec(trial.specification)
    assert specification.model is not None
    assert specification.training is not None
    assert specification.environment is not None
    assert trial.model_path is not None
    enable_determinism(specification.training.threads)
    model = CrossEncoder(trial.model_path, specification.model, seed=0, vocabulary_size=count_vocabulary(trial))
    return model.to(specification.environment.device_type)
