"""The W&B run that a sweep's agent assigns to a configuration: the sweep's charts and search read it.

The runs of the seeds are runs of the study and have their own ids. This run contains the sweep's parameters, the ids of
the seeds' runs and the mean of their results.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from study.tracking.agent_env import SweepContext
from study.tracking.tracking_settings import PRIVATE_SETTINGS
from study.utils.error_text import redact, summarize_server_error

_TIMEOUT_S = 30.0
"""Seconds that the server has to answer, at the start and at the end."""


@contextmanager
def open_agent_run(
    context: SweepContext | None, mode: str, parameters: Mapping[str, str], log: Callable[[str], None]
) -> Iterator[Any]:
    """Open the run for the block. If the block fails, mark the run as failed, with the cause.

    Args:
        context: place in a sweep, if there is one.
        mode: online, offline or disabled.
        parameters: the sweep's parameters, as text.
        log: called with a line if the server does not answer. The configuration runs in any case.

    Yields:
        The run of the W&B client. None outside a sweep, or if the mode is disabled or the server does not answer.
    """
    run = _init_run(context, mode, parameters, log) if context and mode != "disabled" else None
    try:
        yield run
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
    # WANDB_REINIT: this process may also write runs of the study, which must be separate runs.
    os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_REINIT": "create_new"}
    import wandb

    try:
        return wandb.init(
            mode="online" if mode == "online" else "offline",
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
        log(f"cannot open the W&B run of the sweep ({cause}); the configuration runs without it")
        return None


def _parse_value(text: str) -> Any:
    """Return the value of a parameter: numbers and other JSON are parsed, anything else stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
