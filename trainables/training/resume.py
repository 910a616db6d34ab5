"""Checkpoints of one run: loads the newest, leases the way to the next, saves new ones."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainables.specs.checkpoint_chain import (
    Checkpoint,
    TrainedBy,
    checkpoint_key,
    count_instances_trained_by,
    plan_checkpoints,
)
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.storage.base import RESUME_FOLDER
from trainables.storage.leases import Leases
from trainables.training.checkpoints import CheckpointStore
from trainables.training.trainer import Trainer


class ResumableTraining:
    """Moves a run from checkpoint to checkpoint, and shares checkpoints with other runs.

    Args:
        trial: the trial that is executed.
        trainer: fresh trainer; its state is replaced by the newest checkpoint that exists for this run.
        on_wait: called repeatedly while another run trains what this run needs.

    Attributes:
        reused_keys: keys of the shared checkpoints that were loaded.
        instances_trained: instances that this object trained.
    """

    def __init__(self, trial: TrialSpec, trainer: Trainer, on_wait: Callable[[], None] = lambda: None) -> None:
        self._trial, self._trainer, self._on_wait = trial, trainer, on_wait
        storage = open_storage(trial.checkpoints or str(trial.cache / "stages"))
        self._shared_checkpoints, self._leases = CheckpointStore(storage), Leases(storage)
        self._resume_storage, self._run_id = storage.subfolder(RESUME_FOLDER), trial.specification.id
        self._resume_checkpoints = CheckpointStore(self._resume_storage.subfolder(self._run_id))
        self._owner = f"{trial.study}/{self._run_id}" if trial.study else self._run_id
        self._stops = plan_checkpoints(trial.specification, trial.fork_points)
        self._keys = {stop: checkpoint_key(trial.specification, stop) for stop in self._stops}
        self._origins: tuple[TrainedBy, ...] = ()
        self._last_save_time = time.monotonic()
        self.reused_keys: list[str] = []
        self.instances_trained = 0
        for folder in (storage, self._resume_storage, self._resume_checkpoints.storage):
            folder.remove_stale_files()
        self._restore_latest()

    @property
    def damage_messages(self) -> list[str]:
        """One line for each checkpoint that was damaged."""
        return self._shared_checkpoints.damage_messages + self._resume_checkpoints.damage_messages

    @property
    def is_finished(self) -> bool:
        """True if the end of training is reached."""
        return self._trainer.instances_seen >= max(self._stops, default=0)

    @property
    def instances_reused(self) -> int:
        """Instances of the present state that other runs trained.

        This run trained the rest, in this attempt or in an earlier one.
        """
        return self._trainer.instances_seen - count_instances_trained_by(self._owner, self._origins)

    @contextmanager
    def lease_to_next_checkpoint(self) -> Iterator[int]:
        """Yield the number of instances to train to, and save a checkpoint on exit.

        The lease allows only one process at a time to train the instances up to the next checkpoint. The others wait
        here and then load the checkpoint. They receive their present position, so that nothing is left to train. No
        lease is held while waiting, so two runs never wait for each other.
        """
        stop = next(stop for stop in self._stops if stop > self._trainer.instances_seen)
        while True:
            with self._leases.try_acquire(self._keys[stop]) as acquired:
                if self._load_shared():
                    yield self._trainer.instances_seen
                    return
                if acquired:
                    yield stop
                    self._save(stop)
                    return
            time.sleep(self._shared_checkpoints.storage.poll_interval_s)
            self._on_wait()

    def on_step_end(self) -> None:
        """Save a resume checkpoint after a training step, if the last one is old enough."""
        self._record_origin()
        if time.monotonic() - self._last_save_time < self._trial.checkpoint_interval:
            return
        storage, name = self._resume_checkpoints.storage, f"{self._trainer.instances_seen:012}"
        self._resume_checkpoints.save(name, self._make_checkpoint(final=False))
        for older in storage.list_folders():
            if older < name:
                storage.remove(older)
        self._last_save_time = time.monotonic()

    def _restore_latest(self) -> None:
        """Load the checkpoint with the most instances: the run's own or a shared one."""
        for name in reversed(self._resume_checkpoints.storage.list_folders()):
            checkpoint = self._resume_checkpoints.load(name)
            if checkpoint is not None:
                self._restore(checkpoint)
                break
        self._load_shared()
        if self.is_finished:
            self._resume_storage.remove(self._run_id)

    def _load_shared(self) -> bool:
        """Load the furthest shared checkpoint ahead, and return whether there is one."""
        for stop in reversed(self._stops):
            if stop <= self._trainer.instances_seen:
                break
            checkpoint = self._shared_checkpoints.load(self._keys[stop])
            if checkpoint is not None:
                self._restore(checkpoint)
                self.reused_keys.append(self._keys[stop])
                self._leases.discard_if_stale(self._keys[stop])
                return True
        return False

    def _restore(self, checkpoint: Checkpoint) -> None:
        seen = self._trainer.instances_seen
        self._trainer.restore(checkpoint)
        self._origins += tuple(origin for origin in checkpoint.origins if origin.stop > seen)
        self._last_save_time = time.monotonic()

    def _save(self, stop: int) -> None:
        self._record_origin()
        final = stop == self._stops[-1]
        if final:
            self._trainer.load_best_weights()
        self._shared_checkpoints.save(self._keys[stop], self._make_checkpoint(final))
        self._last_save_time = time.monotonic()
        if final:
            self._resume_storage.remove(self._run_id)

    def _record_origin(self) -> None:
        """Record that this run trained the instances since the last call."""
        before = self._origins[-1].stop if self._origins else 0
        if self._trainer.instances_seen == before:
            return
        self.instances_trained += self._trainer.instances_seen - before
        own = TrainedBy(self._trainer.instances_seen, self._owner)
        last = self._origins[-1:] if self._origins and self._origins[-1].owner == self._owner else ()
        self._origins = (*self._origins[: len(self._origins) - len(last)], own)

    def _make_checkpoint(self, final: bool) -> Checkpoint:
        return self._trainer.make_checkpoint(final)._replace(origins=self._origins)
