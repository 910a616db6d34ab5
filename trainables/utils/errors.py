"""Exceptions for errors of the user and errors of the machine.

Any other exception is an error of the configuration itself.
"""

import errno
import importlib.util
import os
from collections.abc import Sequence

_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_MAX_LISTED = 10
"""Largest number of errors that one message lists."""

UTF8_TEXT = (
    "UTF-8 text; iconv -f WINDOWS-1252 -t UTF-8 converts a file, iconv -c -f UTF-8 -t UTF-8 leaves out broken bytes"
)
"""Expected of a file that is not UTF-8, with the remedies."""


class UserError(Exception):
    """Raised for bad input; commands print it on one line and exit with status 2.

    Args:
        where: the key, file or folder that is wrong.
        actual: the value found there.
        expected: the value that was expected instead.

    Example:
        >>> print(UserError("training.batch_size", 0, "at least 2"))
        training.batch_size: 0; expected at least 2
    """

    def __init__(self, where: str, actual: object, expected: str) -> None:
        super().__init__(" ".join(f"{where}: {actual}; expected {expected}".split()))

    def __reduce__(self) -> tuple[type["UserError"], tuple[object, ...]]:
        message = str(self)
        where, _, rest = message.partition(": ")
        actual, _, expected = rest.rpartition("; expected ")
        return UserError, (where, actual, expected)


class CollectedUserError(UserError):
    """Raised for several errors in one input.

    The message has one line for each of the first ten errors, then the number of further ones.

    Example:
        >>> print(CollectedUserError([UserError("seeds", [], "a seed"), UserError("epochs", 0, "a number above 0")]))
        seeds: []; expected a seed
        epochs: 0; expected a number above 0
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
    """Raise the collected errors, if there are any.

    Raises:
        UserError: the only error, or a `CollectedUserError` with all of them.
    """
    if errors:
        raise errors[0] if len(errors) == 1 else CollectedUserError(errors)


def require_package(package: str, where: str, install: str = 'pip install ".[train]"') -> None:
    """Check that a package is installed that the base installation lacks.

    Args:
        package: name by which the package is imported.
        where: what needs it.
        install: command that installs it.

    Raises:
        UserError: if it is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise UserError(where, f"the package {package} is not installed", f"`{install}`")


class MachineError(Exception):
    """Raised if the machine is at fault, not the configuration; a retry later or elsewhere may succeed.

    Examples are a process or node that ended, and a processor other than the one that the run needs.

    Args:
        message: what happened, in one line.
        remedy: what to do about it; default: to rerun the command.
    """

    def __init__(self, message: str, remedy: str = "rerun the same command to resume") -> None:
        super().__init__(message)
        self.remedy = remedy


class MissingDifficultyScoresError(MachineError):
    """Raised if the difficulty scores that a scoring run computes do not exist.

    If the scoring run itself failed, the machine is not at fault. Only its run record shows which case it is.
    """


def is_disk_full(error: BaseException) -> bool:
    """Return whether a disk is full or read-only, so that nothing can succeed before a user fixes it."""
    known = isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS
    return known or os.strerror(errno.ENOSPC) in str(error)  # libraries with their own exceptions
