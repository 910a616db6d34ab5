"""The states of one run: taken up where somebody left them, claimed before they are trained, then kept."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainables.specs.job import Job
from trainables.specs.stages import Origin, Stage, remembered, stage_key, trained_by
from trainables.storage import open_storage
from trainables.storage.base import RESUME
from trainables.storage.locks import Claims
from trainables.training.checkpoints import Checkpoints
from trainables.training.trainer import Trainer


class Chain:
    """A run's way along its stages.

    Args:
        job: what runs.
        trainer: fresh; its state is exchanged for one that is further along wherever there is one.
        waited: called again and again while another run trains what this one needs.

    Attributes:
        reused: keys of the stages that were taken from the cache.
        trained: instances trained here, by this object.
    """

    def __init__(self, job: Job, trainer: Trainer, waited: Callable[[], None] = lambda: None) -> None:
        self._job, self._trainer, self._waited = job, trainer, waited
        place = open_storage(job.stages or str(job.cache / "stages"))
        self._stages, self._claims = Checkpoints(place), Claims(place)
        self._slots, self._id = place.within(RESUME), job.specification.id
        self._slot = Checkpoints(self._slots.within(self._id))
        self._owner = f"{job.study}/{self._id}" if job.study else self._id
        self._stops = remembered(job.specification, job.cuts)
        self._keys = {stop: stage_key(job.specification, stop) for stop in self._stops}
        self._origins: tuple[Origin, ...] = ()
        self._kept = time.monotonic()
        self.reused: list[str] = []
        self.trained = 0
        for kept in (place, self._slots, self._slot.storage):
            kept.sweep()
        self._take_up()

    @property
    def damaged(self) -> list[str]:
        """A line for each state that was found damaged."""
        return self._stages.damaged + self._slot.damaged

    @property
    def done(self) -> bool:
        """Whether the end of training is reached."""
        return self._trainer.seen >= max(self._stops, default=0)

    @property
    def instances_reused(self) -> int:
        """Instances of the present state that other runs trained; the rest this run did, in this try or an earlier."""
        return self._trainer.seen - trained_by(self._owner, self._origins)

    @contextmanager
    def stretch(self) -> Iterator[int]:
        """Yields the instances up to which to train now, and keeps the state that the block reaches.

        Only one process at a time trains a stretch; the others wait here, and then find nothing left to do: they get
        the instances they have. Nothing is claimed while waiting, so no two runs wait for each other.
        """
        stop = next(stop for stop in self._stops if stop > self._trainer.seen)
        while True:
            with self._claims.attempt(self._keys[stop]) as claimed:
                if self._load_ahead():
                    yield self._trainer.seen
                    return
                if claimed:
                    yield stop
                    self._keep(stop)
                    return
            time.sleep(self._stages.storage.patience)
            self._waited()

    def stepped(self) -> None:
        """After a step of training: keeps the state for a later try, if the last one kept is old enough."""
        self._count()
        if time.monotonic() - self._kept < self._job.interval:
            return
        slot, name = self._slot.storage, f"{self._trainer.seen:012}"
        self._slot.save(name, self._state(final=False))
        for older in slot.names():
            if older < name:
                slot.remove(older)
        self._kept = time.monotonic()

    def _take_up(self) -> None:
        """Goes to whatever is furthest along, the run's own slot or a stage."""
        for name in reversed(self._slot.storage.names()):
            stage = self._slot.load(name)
            if stage is not None:
                self._restore(stage)
                break
        self._load_ahead()
        if self.done:
            self._slots.remove(self._id)

    def _load_ahead(self) -> bool:
        """Goes to the furthest stage ahead, if there is one."""
        for stop in reversed(self._stops):
            if stop <= self._trainer.seen:
                break
            stage = self._stages.load(self._keys[stop])
            if stage is not None:
                self._restore(stage)
                self.reused.append(self._keys[stop])
                return True
        return False

    def _restore(self, stage: Stage) -> None:
        seen = self._trainer.seen
        self._trainer.restore(stage)
        self._origins += tuple(origin for origin in stage.origins if origin.stop > seen)
        self._kept = time.monotonic()

    def _keep(self, stop: int) -> None:
        self._count()
        final = stop == self._stops[-1]
        if final:
            self._trainer.conclude()
        self._stages.save(self._keys[stop], self._state(final))
        self._kept = time.monotonic()
        if final:
            self._slots.remove(self._id)

    def _count(self) -> None:
        """Books the instances trained since the last call to this run."""
        before = self._origins[-1].stop if self._origins else 0
        if self._trainer.seen == before:
            return
        self.trained += self._trainer.seen - before
        mine = Origin(self._trainer.seen, self._owner)
        last = self._origins[-1:] if self._origins and self._origins[-1].owner == self._owner else ()
        self._origins = (*self._origins[: len(self._origins) - len(last)], mine)

    def _state(self, final: bool) -> Stage:
        return self._trainer.stage(final)._replace(origins=self._origins)
