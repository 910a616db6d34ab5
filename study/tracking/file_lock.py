"""One writer a W&B run, among all processes that drive the study or bring it to a server."""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

_UNSUPPORTED_ERRNOS = (errno.ENOLCK, errno.ENOTSUP)
"""A file system without locks: then there is one driver, as there should be."""


class FileLock:
    """Held from its making to `release`, or to the end of the process, however it ends.

    Args:
        path: of a file that exists while somebody holds or wants the lock.
        wait: until nobody else holds it.

    Raises:
        BlockingIOError: somebody holds it, and is not waited for.
    """

    def __init__(self, path: Path, wait: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._file = path, _open_and_lock(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Lets the next one."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def _open_and_lock(path: Path, flags: int) -> IO[str]:
    while True:
        file = path.open("a", encoding="utf-8")
        try:
            fcntl.flock(file, flags)
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRNOS:
                file.close()
                raise
            return file
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # whoever held it has removed this file; another one is locked by now
