"""The run of its own that a sweep's agent gives to a configuration: what the sweep's charts and its search look at.

The seeds' runs are runs of the study under their own ids; this one holds the sweep's parameters, the seeds' ids and
the mean of what they found.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from study.tracking.agent_env import SweepContext
from study.tracking.settings import PRIVATE_SETTINGS
from study.utils.error_text import redact, summarize_server_error

_TIMEOUT_S = 30.0
"""Seconds for the server to answer, at the start and at the end."""


class AgentRun:
    """The run, or nothing where there is no sweep; closed by `parent`."""

    def __init__(self, run: Any = None) -> None:
        self._run = run

    def describe(self, name: str, config: Mapping[str, Any]) -> None:
        """What the configuration is called, and what its config holds beside the sweep's parameters."""
        if self._run is not None:
            self._run.name = name
            self._run.config.update(dict(config))

    def log_result(self, values: Mapping[str, float]) -> None:
        """Its summary. It is logged as well, since the search of a sweep reads what was logged."""
        if self._run is not None:
            self._run.log(dict(values))


@contextmanager
def open_agent_run(
    context: SweepContext | None, mode: str, parameters: Mapping[str, str], log: Callable[[str], None]
) -> Iterator[AgentRun]:
    """Opens the run for the block, and marks it as failed, with the cause, where the block fails.

    Args:
        where: the place in a sweep; without one, nothing is written.
        mode: online, offline or disabled.
        parameters: as the sweep gave them.
        say: told where the server does not answer: the configuration runs nevertheless.
    """
    run = _init_run(context, mode, parameters, log) if context and mode != "disabled" else None
    try:
        yield AgentRun(run)
    except BaseException as error:
        if run is not None:
            cause = redact(" ".join(str(error).split())) or type(error).__name__
            is_interrupted = not isinstance(error, Exception)
            run.summary.update({"state": "failed", "error": "stopped from outside" if is_interrupted else cause})
            run.finish(exit_code=1)
        raise
    if run is not None:
        run.summary.update({"state": "finished"})
        run.finish(exit_code=0)


def _init_run(context: SweepContext, mode: str, parameters: Mapping[str, str], log: Callable[[str], None]) -> Any:
    # Runs of the study that this process may write beside it are runs of their own.
    os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_REINIT": "create_new"}
    import wandb

    kind: Literal["online", "offline"] = "online" if mode == "online" else "offline"
    try:
        return wandb.init(
            mode=kind,
            id=context.run_id,
            project=context.project,
            entity=context.entity,
            job_type="sweep",
            config={name: _parse_value(text) for name, text in parameters.items()},
            dir=os.path.relpath(context.folder or "."),
            settings=wandb.Settings(
                finish_timeout=_TIMEOUT_S, init_timeout=_TIMEOUT_S, sweep_id=context.sweep_id, **PRIVATE_SETTINGS
            ),
        )
    except wandb.errors.Error as error:
        cause = redact(summarize_server_error(error))
        log(f"the sweep's own run cannot be opened ({cause}); the configuration runs without")
        return None


def _parse_value(text: str) -> Any:
    """As the sweep has it: numbers are none of text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
