"""Checks the paths that a study names, before anything is read from them or written to them."""

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from study.config.schema import Study

_KERNEL_FOLDERS = ("/proc", "/sys")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/")


def find_unusable_paths(study: Study) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and expectation of every unusable path; hub ids are not looked up."""
    name = study.model.name
    package, _, inner = name.removeprefix("package:").partition("/")
    folder: Path | None = None
    if name.startswith("package:"):
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
        if spec and spec.submodule_search_locations:
            folder = Path(spec.submodule_search_locations[0], inner)
        else:
            expected = f"package:MODULE/FOLDER of an installed package; is the environment with {package!r} active?"
            yield "model.name", repr(name), expected
    elif name.startswith((".", "/", "~")) or (os.sep in name and os.path.exists(name)):
        folder = Path(os.path.expanduser(name)).absolute()
    elif not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        yield "model.name", repr(name), "a hub id (OWNER/NAME), a local folder, or package:MODULE/FOLDER"
    if folder and not os.path.isfile(folder / "config.json"):
        state = "has no config.json" if os.path.isdir(folder) else "does not exist"
        yield "model.name", repr(name), f"a folder with config.json; {folder} {state}"
    for key, text, path, url_key in (
        ("output.folder", study.output.folder or "", study.folder, "output.remote"),
        ("cache.folder", study.cache.folder, study.cache_folder, "cache.checkpoints"),
    ):
        if scheme := _SCHEME.match(text):
            yield key, f"the URL {scheme[0]}/...", f"a folder on a disk; {url_key} takes a URL"
        elif fault := _find_folder_fault(path):
            yield key, repr(str(path)), fault
    for key, place in (
        ("cache.checkpoints", study.cache.checkpoints and study.checkpoints_url),
        ("output.remote", study.records_url),
    ):
        if place and re.search("://.*:.*@", place):  # the message must not show the password either
            hidden = re.sub("://.*@", "://...@", place)
            yield key, repr(hidden), "no password in it; credentials are read from the environment"
        elif place and (fault := _find_storage_fault(place)):
            yield key, repr(place), fault


def _find_folder_fault(path: Path) -> str | None:
    """Return what is expected instead of a folder that can never hold files, or None if the folder can.

    The permission to write is not checked.
    """
    existing = next(parent for parent in (path, *path.parents) if os.path.exists(parent))
    if not os.path.isdir(existing):
        return f"a folder; {existing} is a file"
    system = next((folder for folder in _KERNEL_FOLDERS if existing.resolve().is_relative_to(folder)), None)
    return f"a folder on a disk; {system} holds no files" if system else None


def _find_storage_fault(place: str) -> str | None:
    """Return what is expected instead of an unusable folder or URL for files, or None if it is usable.

    Reachability is not checked.
    """
    if "://" not in place:
        return _find_folder_fault(Path(place))
    import fsspec  # imported late because loading it takes noticeable time

    try:
        fsspec.get_filesystem_class(place.partition("://")[0])
    except ValueError:
        return "a folder, or the URL of a file system that fsspec knows, e.g. s3://bucket/stages"
    except ImportError as error:
        return f"the package of this file system to be installed ({error})"
    return None
