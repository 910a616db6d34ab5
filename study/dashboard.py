"""Command line that saves the dashboard of a study in Weights & Biases.

    python -m study.dashboard [STUDY] [KEY=VALUE ...] [--json FILE]

It saves a workspace in the study's W&B project: comparisons with corrected p-values, learning curves by variant,
hyperparameters, the metric against epsilon, cost and failures. Saving it again replaces the previous version.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("study.dashboard", "train")

import json
import os
from collections.abc import Sequence
from pathlib import Path

from study.config.loader import load_study
from study.config.sources import split_arguments
from study.utils.error_text import summarize_server_error
from trainables.utils.cli import Parser, format_error, print_escaped, report_errors, write_json_option


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    options = _build_parser().parse_intermixed_args(argv)

    def run() -> None:
        name, overrides = split_arguments(options.arguments)
        study = load_study(name, overrides)
        os.environ["WANDB_SILENT"] = "true"  # the client prints nothing and asks nothing
        from study.wandb_workspace.workspace import as_json, build_workspace, save_workspace

        if options.json is None:
            print_escaped(save_workspace(study, study.tracking.entity))
            return
        content = as_json(build_workspace(study, study.tracking.entity or ""))
        if options.json == "-":
            print_escaped(json.dumps(content, indent=1, sort_keys=True))
        else:
            write_json_option(Path(options.json).expanduser(), content)

    return report_errors("study.dashboard", run, _format_server_error if options.json is None else format_error)


def _format_server_error(error: Exception) -> str:
    return f"{summarize_server_error(error)[:300]}; --json FILE needs no server"


def _build_parser() -> Parser:
    parser = Parser(
        "study.dashboard",
        "Save the dashboard of a study in its W&B project and print its URL. Default: the quick study.",
    )
    parser.add_argument("arguments", nargs="*", metavar="STUDY | KEY=VALUE", help="study file or name, then overrides")
    parser.add_argument(
        "--json", metavar="FILE", help="write it to FILE as JSON (-: standard output), without a server"
    )
    return parser


if __name__ == "__main__":
    interruption.run_command(main)
