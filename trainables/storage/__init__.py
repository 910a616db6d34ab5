"""Atomic folders and leases, on a local disk or on any file system that fsspec knows."""

import os
from pathlib import Path

from trainables.storage.base import Storage
from trainables.storage.local import LocalStorage
from trainables.storage.remote import RemoteStorage


def open_storage(location: str) -> Storage:
    """The storage at a local path or a URL, e.g. s3://bucket/stages.

    Raises:
        ValueError: no file system of this name.
        ImportError: the package that serves it is not installed; the message says which.
    """
    if "://" not in location:
        return LocalStorage(Path(os.path.expanduser(location)).absolute())
    import fsspec  # a study whose checkpoints lie on a disk need not load it
    from fsspec.implementations.local import LocalFileSystem

    system, path = fsspec.core.url_to_fs(location)
    return LocalStorage(Path(path)) if isinstance(system, LocalFileSystem) else RemoteStorage(system, path)
