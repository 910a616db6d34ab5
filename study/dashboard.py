"""A study's dashboard in Weights & Biases: python -m study.dashboard [STUDY] [KEY=VALUE ...] [--json FILE].

Saves a workspace in the study's project: comparisons with corrected p-values, learning curves by variant,
hyperparameters, the metric against epsilon, cost and failures. Saved again it replaces the one saved before.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.catch("study.dashboard")

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from study.config.arguments import split_arguments
from study.config.loader import load
from study.config.schema import Study
from study.utils.error_text import of_server
from trainables.utils.cli import Parser, complain, show
from trainables.utils.errors import UserError
from trainables.utils.files import write_json


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status: 0 done, 2 bad input, 1 anything else."""
    options = _parser().parse_intermixed_args(argv)
    try:
        name, overrides = split_arguments(options.arguments)
        study = load(name, overrides)
        if options.json is None:
            show(_save(study))
        else:
            _write(study, options.json)
        sys.stdout.flush()
        return 0
    except UserError as error:
        complain("study.dashboard", error)
        return 2
    except BrokenPipeError:  # whoever read the output has read enough, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        complain("study.dashboard", f"{of_server(error)[:300]}; --json FILE needs no server")
        return 1


def _parser() -> Parser:
    parser = Parser(
        prog="python -m study.dashboard",
        description="Saves the dashboard of a study in its Weights & Biases project, and prints where it is. The same "
        "command again replaces it. Without arguments: that of the quick study.",
    )
    parser.add_argument("arguments", nargs="*", metavar="STUDY | KEY=VALUE", help="study file or name, then overrides")
    parser.add_argument("--json", metavar="FILE", help="write it there, - for here, without a server or a key")
    return parser


def _write(study: Study, file: str) -> None:
    _check_installed()
    from study.wandb_workspace.workspace import as_json, workspace

    made = as_json(workspace(study, study.tracking.entity or ""))
    if file == "-":
        show(json.dumps(made, indent=1, sort_keys=True))
        return
    path = Path(file).expanduser()
    try:
        write_json(path, made)
    except OSError as error:
        raise UserError(f"--json: {file}", error.strerror, "a file that can be written") from error


def _save(study: Study) -> str:
    _check_installed()
    os.environ["WANDB_SILENT"] = "true"  # it asks nothing either
    from study.wandb_workspace.workspace import save

    return save(study, study.tracking.entity)


def _check_installed() -> None:
    try:
        import wandb_workspaces  # noqa: F401
    except ImportError as error:
        raise UserError("wandb-workspaces", "not installed", "pip install wandb-workspaces") from error


if __name__ == "__main__":
    interruption.run(main)
