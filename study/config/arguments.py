"""Splits the arguments of a command into the name of the study and its overrides."""

from collections.abc import Sequence

from trainables.utils.errors import UserError


def split_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the name of the study, or None if no name is given, and the overrides.

    Args:
        arguments: the arguments of the command line. An argument with an equals sign is an override KEY=VALUE; any
            other argument is the name of a study or the path of a study file.

    Raises:
        UserError: if there are several names.

    Example:
        >>> split_arguments(["quick", "seeds=[1, 2]", "search.sampler=grid"])
        ('quick', ['seeds=[1, 2]', 'search.sampler=grid'])
        >>> split_arguments(["seeds=[1]"])
        (None, ['seeds=[1]'])
    """
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise UserError("command line", repr(names[1]), f"only one study; after {names[0]!r} give only KEY=VALUE")
    return (names[0] if names else None), [argument for argument in arguments if "=" in argument]
