"""Pool of the trials of one or several studies, which run at the same time on the same machines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from study.records.run_record import Split
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.tracking import WandbLogger

TrialStartCallback = Callable[[TrialRequest], None]
"""Called with a trial that starts, also when it starts again."""
TrialEndCallback = Callable[[TrialRequest, dict[str, Any]], None]
"""Called with a trial that ended for good and its run record."""


@dataclass(frozen=True, eq=False)
class PoolMember:
    """A study in a pool.

    Attributes:
        scheduler: decides which trials run.
        wandb_logger: writes their runs to W&B.
        save_copy: called with the run id and the split of each recorded evaluation, before its trial counts as ended.
        on_trial_start: called for each trial that starts.
        on_trial_end: called for each trial that ended.
    """

    scheduler: BaseScheduler
    wandb_logger: WandbLogger
    save_copy: Callable[[str, Split], None]
    on_trial_start: TrialStartCallback
    on_trial_end: TrialEndCallback


class TrialPool:
    """The trials of several studies. All of them need the same resources.

    An earlier study has precedence: a trial of a later one starts only while no trial of the earlier ones can. So the
    earlier studies are finished first, and no core waits for the end of a search round.

    Args:
        members: the studies, in the order of precedence.
        on_precompute: called with the finished and the total number of parts of the frozen layers' outputs.
        on_stretch: called with a trial after each stretch of its training, and the instances seen so far.
    """

    def __init__(
        self,
        members: Sequence[PoolMember],
        on_precompute: Callable[[int, int], None],
        on_stretch: Callable[[TrialRequest, int], None] = lambda request, instances: None,
    ) -> None:
        self.members, self.on_precompute, self.on_stretch = tuple(members), on_precompute, on_stretch

    @property
    def is_finished(self) -> bool:
        """True if no trial is running and none is left to start."""
        return all(member.scheduler.is_finished for member in self.members)

    def pop_request(self) -> tuple[PoolMember, TrialRequest] | None:
        """Return the next trial to start and its study, or None while running trials must end first."""
        for member in self.members:
            if not member.scheduler.is_finished and (request := member.scheduler.pop_request()):
                return member, request
        return None
