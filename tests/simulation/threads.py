"""Threads of the simulated processes, which wait by the machine's clock."""

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

from tests.simulation.machine import Killed, Machine


class Threads:
    """Stands in for the module `threading`: its threads go on while time passes."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def Event(self) -> "Event":  # noqa: N802
        """Return an event."""
        return Event(self._machine)

    def Thread(self, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> "Thread":  # noqa: N802
        """Return a thread that is not started."""
        return Thread(self._machine, target, args)


class Event:
    """Event that a thread waits for."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._is_set = machine, False

    def set(self) -> None:
        """End the waiting."""
        self._is_set = True

    def wait(self, seconds: float) -> bool:
        """Wait until the event is set or the time is over, and return whether it is set."""
        end = self._machine.now + seconds
        while not self._is_set and self._machine.now < end:
            parent = getcurrent().parent
            assert parent is not None
            parent.switch()
        return self._is_set


class Thread:
    """A thread of the running process, which ends with it."""

    def __init__(self, machine: Machine, target: Callable[..., None], args: tuple[Any, ...]) -> None:
        assert machine.running
        self._machine, self._process = machine, machine.running

        def main() -> None:
            try:
                target(*args)
            except Killed:
                return

        self._greenlet = greenlet(main)

    def start(self) -> None:
        """Go on from now on while time passes."""
        self._machine.background.append(self)
        self.work()

    def join(self) -> None:
        """Let the thread end."""
        try:
            while not self._greenlet.dead and not self._process.is_killed:
                self.work()
        finally:  # a signal may have arrived
            self.die()

    def work(self) -> None:
        """Go on until the thread waits again."""
        if self._process.is_killed:
            self.die()
            return
        self._greenlet.parent = getcurrent()
        with self._machine.run_as(self._process):
            self._greenlet.switch()

    def die(self) -> None:
        """Do nothing from here on."""
        if self in self._machine.background:
            self._machine.background.remove(self)
