"""Prints the progress of a study."""

from trainables.utils.cli import print_escaped


def print_line(line: str) -> None:
    """Print one line of progress."""
    print_escaped(line, flush=True)
