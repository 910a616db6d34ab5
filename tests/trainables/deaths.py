"""Runs that are killed after their first batch, their second, ..., and taken up again."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.trainables.small import finish
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.training.resume import ResumableTraining


def same(one: TrialResult, other: TrialResult) -> bool:
    """Return whether two runs ended with the same bits."""
    names = ("weights_hash", "best_evaluation", "history", "metric")
    return np.array_equal(one.scores, other.scores) and all(getattr(one, it) == getattr(other, it) for it in names)


def kill_after_each_batch(make: Callable[[], TrialSpec], whole: TrialResult, total: int) -> int:
    """Check that a run that is killed after any batch ends as the whole one, and return how often it was killed."""
    stepped, left, deaths = ResumableTraining.on_step_end, 0, 0

    def dying(chain: ResumableTraining) -> None:
        nonlocal left
        stepped(chain)
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResumableTraining, "on_step_end", dying)
        while True:
            trial = make()
            left = deaths + 1
            try:
                assert same(finish(trial), whole)
                return deaths
            except KeyboardInterrupt:
                deaths += 1
            again = finish(trial)
            assert same(again, whole)
            assert again.instances_resumed > 0
            assert again.instances_trained + again.instances_resumed == total
