"""The run of its own that a sweep's agent gives to a configuration: what the sweep's charts and its search look at.

The seeds' runs are runs of the study under their own ids; this one holds the sweep's parameters, the seeds' ids and
the mean of what they found.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from study.tracking.agent_env import Place
from study.tracking.settings import PRIVATE
from study.utils.error_text import of_server, public

_TIMEOUT = 30.0
"""Seconds for the server to answer, at the start and at the end."""


class Parent:
    """The run, or nothing where there is no sweep; closed by `parent`."""

    def __init__(self, run: Any = None) -> None:
        self._run = run

    def about(self, name: str, facts: Mapping[str, Any]) -> None:
        """What the configuration is called, and what its config holds beside the sweep's parameters."""
        if self._run is not None:
            self._run.name = name
            self._run.config.update(dict(facts))

    def found(self, values: Mapping[str, float]) -> None:
        """Its summary. It is logged as well, since the search of a sweep reads what was logged."""
        if self._run is not None:
            self._run.log(dict(values))


@contextmanager
def parent(
    where: Place | None, mode: str, parameters: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[Parent]:
    """Opens the run for the block, and marks it as failed, with the cause, where the block fails.

    Args:
        where: the place in a sweep; without one, nothing is written.
        mode: online, offline or disabled.
        parameters: as the sweep gave them.
        say: told where the server does not answer: the configuration runs nevertheless.
    """
    run = _opened(where, mode, parameters, say) if where and mode != "disabled" else None
    try:
        yield Parent(run)
    except BaseException as error:
        if run is not None:
            cause = public(" ".join(str(error).split())) or type(error).__name__
            stopped = not isinstance(error, Exception)
            run.summary.update({"state": "failed", "error": "stopped from outside" if stopped else cause})
            run.finish(exit_code=1)
        raise
    if run is not None:
        run.summary.update({"state": "finished"})
        run.finish(exit_code=0)


def _opened(where: Place, mode: str, parameters: Mapping[str, str], say: Callable[[str], None]) -> Any:
    # Runs of the study that this process may write beside it are runs of their own.
    os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_REINIT": "create_new"}
    import wandb

    kind: Literal["online", "offline"] = "online" if mode == "online" else "offline"
    try:
        return wandb.init(
            mode=kind,
            id=where.run,
            project=where.project,
            entity=where.entity,
            job_type="sweep",
            config={name: _value(text) for name, text in parameters.items()},
            dir=os.path.relpath(where.folder or "."),
            settings=wandb.Settings(finish_timeout=_TIMEOUT, init_timeout=_TIMEOUT, sweep_id=where.sweep, **PRIVATE),
        )
    except wandb.errors.Error as error:
        cause = public(of_server(error))
        say(f"the sweep's own run cannot be opened ({cause}); the configuration runs without")
        return None


def _value(text: str) -> Any:
    """As the sweep has it: numbers are none of text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
