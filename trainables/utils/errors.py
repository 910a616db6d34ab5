"""Exceptions that say whose fault it was: the user's, or the machine's; any other is the configuration's own."""

from collections.abc import Sequence

_MAX_LISTED = 10
"""Most mistakes that are named at once."""


class UserError(Exception):
    """Raised for bad input; command lines print it on one line and exit with status 2.

    Args:
        where: the key, file or folder at fault.
        found: what stands there.
        expected: what was expected instead.
    """

    def __init__(self, where: str, actual: object, expected: str) -> None:
        super().__init__(" ".join(f"{where}: {actual}; expected {expected}".split()))

    def __reduce__(self) -> tuple[type["UserError"], tuple[object, ...]]:
        message = str(self)
        where, _, rest = message.partition(": ")
        found, _, expected = rest.rpartition("; expected ")
        return UserError, (where, found, expected)


class CollectedUserError(UserError):
    """Several mistakes of one input: a line each for the first ten, then the number of the others.

    Args:
        errors: the mistakes, in the order in which they are named.
    """

    def __init__(self, errors: Sequence[UserError]) -> None:
        self.errors = tuple(errors)
        lines = [str(error) for error in self.errors[:_MAX_LISTED]]
        if (further := len(self.errors) - _MAX_LISTED) > 0:
            lines.append(f"and {further} more mistake{'s' * (further > 1)}")
        Exception.__init__(self, "\n".join(lines))

    def __reduce__(self) -> tuple[type[UserError], tuple[object, ...]]:
        return CollectedUserError, (self.errors,)


def raise_if_any(errors: Sequence[UserError]) -> None:
    """Raises what is wrong, if anything is.

    Raises:
        UserError: the one mistake, or all of them.
    """
    if errors:
        raise errors[0] if len(errors) == 1 else CollectedUserError(errors)


class MachineError(Exception):
    """Something about the machine, not about what it was asked to do: a process or node that ended, another processor
    than the run needs. Trying again, later or elsewhere, may end well."""


class MissingDifficultyScoresError(MachineError):
    """The table of difficulties that a trained model makes is not there. Where that model's run failed by itself, it is
    no fault of the machine; only whoever knows that run's record can tell."""
