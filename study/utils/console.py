"""Lines that a study prints."""

from trainables.utils.cli import show


def say(line: str) -> None:
    """One line of progress."""
    show(line, flush=True)
