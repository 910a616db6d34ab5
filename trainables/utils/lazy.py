"""Lazy imports of package attributes (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def make_lazy_getattr(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports a module when one of its names is first used.

    Args:
        package: name of the package.
        modules: public name -> module of the package that defines it.

    Example:
        >>> getattr_ = make_lazy_getattr("trainables.utils", {"hash_json": "hashing"})
        >>> getattr_("hash_json").__module__
        'trainables.utils.hashing'
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get
