"""Splits the arguments of a command into the study and its overrides."""

from collections.abc import Sequence

from trainables.utils.errors import UserError


def split_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The study's name, if there is one, and the overrides.

    Raises:
        UserError: there are several names.
    """
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise UserError("command line", repr(names[1]), f"one study, after {names[0]!r} only KEY=VALUE")
    return (names[0] if names else None), [argument for argument in arguments if "=" in argument]
