"""Exceptions that say whose fault it was: the user's, or the machine's; any other is the configuration's own."""


class UserError(Exception):
    """Raised for bad input; command lines print it on one line and exit with status 2.

    Args:
        where: the key, file or folder at fault.
        found: what stands there.
        expected: what was expected instead.
    """

    def __init__(self, where: str, found: object, expected: str) -> None:
        super().__init__(" ".join(f"{where}: {found}; expected {expected}".split()))

    def __reduce__(self) -> tuple[type["UserError"], tuple[str, str, str]]:
        message = str(self)
        where, _, rest = message.partition(": ")
        found, _, expected = rest.rpartition("; expected ")
        return UserError, (where, found, expected)


class MachineError(Exception):
    """Something about the machine, not about what it was asked to do: a process or node that ended, another processor
    than the run needs. Trying again, later or elsewhere, may end well."""


class NoDifficultiesError(MachineError):
    """The table of difficulties that a trained model makes is not there. Where that model's run failed by itself, it is
    no fault of the machine; only whoever knows that run's record can tell."""
