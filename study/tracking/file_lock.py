"""Lock that gives each W&B run one writer, among all processes that drive or sync a study."""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

_UNSUPPORTED_ERRNOS = (errno.ENOLCK, errno.ENOTSUP)
"""Errors of file systems without locks. There, only one driver may run at a time."""


class FileLock:
    """Lock that is held from its creation to `release`, or to the end of the process.

    Args:
        path: file that exists while a process holds the lock or waits for it.
        wait: True to wait until no other process holds it.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is False.
    """

    def __init__(self, path: Path, wait: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._file = path, _open_and_lock(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Release the lock."""
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
        file.close()  # the previous holder has removed this file; try again with a new one
