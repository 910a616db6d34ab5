"""Atomic folders and leases, on a local disk or on any file system that fsspec knows."""

import os
from pathlib import Path

from trainables.storage.base import Storage
from trainables.storage.local import Disk
from trainables.storage.remote import Objects


def open_storage(place: str) -> Storage:
    """The storage at a local path or a URL, e.g. s3://bucket/stages.

    Raises:
        ValueError: no file system of this name.
        ImportError: the package that serves it is not installed; the message says which.
    """
    if "://" not in place:
        return Disk(Path(os.path.expanduser(place)).absolute())
    import fsspec  # a study whose checkpoints lie on a disk need not load it
    from fsspec.implementations.local import LocalFileSystem

    system, path = fsspec.core.url_to_fs(place)
    return Disk(Path(path)) if isinstance(system, LocalFileSystem) else Objects(system, path)
