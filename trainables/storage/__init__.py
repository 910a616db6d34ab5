"""Storage of checkpoints: atomic folders and leases, on a local disk or any fsspec file system."""

import os
from pathlib import Path

from trainables.storage.base import Storage
from trainables.storage.local import LocalStorage
from trainables.storage.remote import RemoteStorage


def open_storage(location: str) -> Storage:
    """Return the storage at a local path or a URL.

    Args:
        location: a path, or a URL such as `s3://bucket/stages`.

    Raises:
        ValueError: fsspec knows no file system of this name.
        ImportError: the package of the file system is not installed; the message names it.

    Example:
        >>> type(open_storage("/tmp/checkpoints")).__name__
        'LocalStorage'
        >>> type(open_storage("memory://checkpoints")).__name__
        'RemoteStorage'
    """
    if "://" not in location:
        return LocalStorage(Path(os.path.expanduser(location)).absolute())
    import fsspec  # not needed for a local path
    from fsspec.implementations.local import LocalFileSystem

    system, path = fsspec.core.url_to_fs(location)
    return LocalStorage(Path(path)) if isinstance(system, LocalFileSystem) else RemoteStorage(system, path)
