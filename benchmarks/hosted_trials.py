"""Stand-ins for the processes of trials: few processes that run many trials, each in threads of its own.

This module loads little, because each of the processes imports it.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import ray


class Host:
    """Runs trials in threads; a training takes the given seconds."""

    def __init__(self, seconds: float) -> None:
        from own_package.logistic.run import LogisticRun

        self._trials: dict[str, Any] = {}
        advance = LogisticRun.advance

        def sleep_and_advance(run: LogisticRun) -> Any:
            time.sleep(seconds if run.instances_seen == 0 else 0)
            return advance(run)

        LogisticRun.advance = sleep_and_advance  # type: ignore[method-assign]

    def create(self, trainable: type, arguments: dict[str, Any]) -> str:
        """Make a trial and return its key."""
        key = uuid.uuid4().hex
        self._trials[key] = trainable(**arguments)
        return key

    def call(self, key: str, method: str, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """Call a method of a trial, as Ray does with the process of one; Ray waits until the key is known."""
        if method == "__ray_terminate__":
            del self._trials[key]
        if method.startswith("__ray_"):
            return None
        return getattr(self._trials[key], method)(*arguments, **named)


class _Method(NamedTuple):
    host: Any
    key: "ray.ObjectRef[str]"
    name: str

    def remote(self, *arguments: Any, **named: Any) -> Any:
        return self.host.call.remote(self.key, self.name, arguments, named)

    def options(self, **ignored: Any) -> "_Method":
        return self


class HostedTrial:
    """Stands for the process of a trial."""

    def __init__(self, host: Any, key: "ray.ObjectRef[str]") -> None:
        self._host, self._key = host, key

    def __getattr__(self, name: str) -> _Method:
        return _Method(self._host, self._key, name)


class HostedClass(ray.actor.ActorClass):  # type: ignore[type-arg]
    """Stands for the class of the processes; the hosts take new ones in turn."""

    def __init__(self, trainable: type, hosts: list[Any]) -> None:
        self._trainable, self._hosts, self._count = trainable, hosts, 0

    def options(self, **ignored: Any) -> "HostedClass":  # type: ignore[override]
        return self

    def remote(self, **arguments: Any) -> HostedTrial:
        host = self._hosts[self._count % len(self._hosts)]
        self._count += 1
        return HostedTrial(host, host.create.remote(self._trainable, arguments))
