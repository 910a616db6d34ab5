"""Lines that a study prints."""

from trainables.utils.cli import print_escaped


def print_line(line: str) -> None:
    """One line of progress."""
    print_escaped(line, flush=True)
