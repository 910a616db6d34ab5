"""Writes the page of all commands, from their argument parsers.

python -m docs.scripts.commands > docs/reference/commands.md
"""

import argparse
import re
import textwrap
from contextlib import suppress
from functools import partial
from importlib import import_module
from unittest.mock import patch

from trainables.utils.cli import Parser, print_escaped

COMMANDS = {
    "study.run": "[Getting started](../getting-started.md)",
    "study.export": "[Take a model away](../guide/export.md)",
    "study.rerank": "[Re-ranking](../guide/rerank.md)",
    "study.dashboard": "[Weights & Biases](../guide/wandb.md)",
    "study.sync": "[Weights & Biases](../guide/wandb.md)",
    "analysis.report": "[Read the report](../tutorial/read-the-report.md)",
    "analysis.compare": "[Compare scores](../guide/compare.md)",
    "analysis.sample_size": "[How many seeds and queries?](../guide/sample-size.md)",
}
"""Module of a command -> page that shows how it is used."""
_USAGE_WIDTH, _LINE = 100, 120
"""Characters after which a usage and a paragraph are wrapped."""
_INTRODUCTION = """\
# Commands

`make docs` writes this page from the argument parsers; `--help` after a command prints the same. `KEY=VALUE` is a
[key of a study file](configuration.md) with another value. Quote brackets, braces and blanks: `seeds='[1, 2]'`.

## Exit statuses

{statuses}

These are the statuses of all commands. Bad input is one line on the standard error for each mistake, see
[Troubleshooting](../guide/troubleshooting.md). Ctrl-C, SIGTERM and SIGHUP end a command with one line and status 1.
"""


def read_parser(module: str) -> argparse.ArgumentParser:
    """Return the argument parser of a command, which its `main` creates."""
    parsers: list[argparse.ArgumentParser] = []

    def stop(parser: argparse.ArgumentParser, *arguments: object) -> None:
        parsers.append(parser)
        parser.exit()

    with suppress(SystemExit), patch.object(Parser, "print_help", stop):
        import_module(module).main(["--help"])
    return parsers[0]


def read_statuses(module: str) -> dict[int, str]:
    """Return the exit statuses of a command with their meanings, from the docstring of its `main`."""
    line = (import_module(module).main.__doc__ or "").partition("\n")[0]
    return {int(status): meaning for status, meaning in re.findall(r"\b(\d) ([a-z ]+)", line)}


def format_page() -> str:
    """Return the page docs/reference/commands.md."""
    statuses = read_statuses("study.run")
    table = ["| Status | Meaning |", "| --- | --- |", *(f"| {key} | {statuses[key]} |" for key in sorted(statuses))]
    lines = [_INTRODUCTION.format(statuses="\n".join(table))]
    for module, page in COMMANDS.items():
        parser = read_parser(module)
        parser.formatter_class = partial(argparse.HelpFormatter, width=_USAGE_WIDTH)
        usage = re.sub(r"\n +", "\n    ", parser.format_usage().removeprefix("usage: ").rstrip())
        lines += [f"## {module}", "", textwrap.fill(parser.description or "", _LINE), "", "```text", usage, "```", ""]
        rows = [_describe(action) for action in parser._actions if action.dest != "help"]
        width = 3 if any(default for *_, default in rows) else 2
        header = ("Argument or option", "Meaning", "Default")
        lines += [f"| {' | '.join(cells[:width])} |" for cells in (header, ("---",) * 3, *rows)]
        lines += ["", f"See also {page}.", ""]
    return "\n".join(lines)


def _describe(action: argparse.Action) -> tuple[str, str, str]:
    """Return the names of an argument or option, its meaning and its default."""
    value = f" {_format_value(action)}" if action.option_strings and action.nargs != 0 else ""
    names = [f"`{name}{value}`" for name in action.option_strings] or [f"`{_format_value(action)}`"]
    meaning = action.help or ""
    if action.choices is not None:
        meaning += f": {', '.join(f'`{choice}`' for choice in action.choices)}"
    if isinstance(action, argparse._AppendAction) and "repeated" not in meaning:
        meaning += "; may be repeated"
    return "<br>".join(names), meaning, _format_default(action)


def _format_value(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    text = name if not action.option_strings or action.metavar else name.upper()
    if action.choices is not None and action.metavar is None:
        text = "NAME"
    return {"?": f"[{text}]", "*": f"[{text} ...]", "+": f"{text} [{text} ...]"}.get(str(action.nargs), text)


def _format_default(action: argparse.Action) -> str:
    if action.nargs == 0 or action.default is None or action.default == []:
        return ""
    values = action.default if isinstance(action.default, list) else [action.default]
    return f"`{' '.join(map(str, values))}`"


if __name__ == "__main__":
    print_escaped(format_page().rstrip(), flush=True)
