"""The one exception for a user's mistake: what, where, what was expected, in one line."""


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
