"""Registries of what a user chooses by name, and other names whose objects are imported on first use."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """An entry of a registry: an object and what a user reads about it.

    Attributes:
        name: name that a user writes. A parameter in it is "ID", "n" or in angle brackets, as in "irds:ID".
        target: the object, or "module:attribute" if it is imported on first use.
        line: description, without a final period, at most 100 characters.
        source: paper or library that defines it.
        options: names of the settings that change what it does and not what every entry does.
        pattern: regular expression of all its names, if the name has a parameter. If it has groups, the target is a
            function of their texts that returns the object.
        examples: names that stand for the entry where the names of the registry are listed. If empty, `name`.
    """

    name: str
    target: Any
    line: str
    source: str
    options: tuple[str, ...] = ()
    pattern: str | None = None
    examples: tuple[str, ...] = ()

    def load_target(self) -> Any:
        """Return the target, which is imported if necessary."""
        return load_object(self.target) if isinstance(self.target, str) else self.target


class Registry(Mapping[str, T]):
    """Mapping from names to objects, each described by an entry.

    Args:
        entries: the entries, in the order in which they are listed.
        options: names of the settings that change what every entry does.

    Raises:
        KeyError: if a name is unknown; the message lists the names.

    Example:
        >>> means = Registry(
        ...     Entry("mean", "statistics:mean", "sum divided by the count", "any textbook"),
        ...     Entry("power_p", lambda p: lambda values: sum(v ** int(p) for v in values), "power sum", "any textbook",
        ...           pattern=r"power_([0-9])", examples=("power_2",)),
        ... )
        >>> means["mean"]([1, 2]), means["power_3"]([1, 2])
        (1.5, 9)
        >>> list(means), means.format_names()
        (['mean', 'power_2'], 'mean, power_p')
    """

    def __init__(self, *entries: Entry, options: tuple[str, ...] = ()) -> None:
        self.entries, self.options = entries, options
        self._by_name = {entry.name: entry for entry in entries if entry.pattern is None}

    def __getitem__(self, name: str) -> T:
        if (found := self._find_entry(name)) is None:
            raise KeyError(f"{name!r}; expected one of {self.format_names()}")
        entry, parameters = found
        target = entry.load_target()
        try:
            value: T = target(*parameters) if parameters else target
        except ValueError as error:
            raise KeyError(f"{name!r}: {error}") from error
        return value

    def __contains__(self, name: object) -> bool:
        return self._find_entry(name) is not None

    def __iter__(self) -> Iterator[str]:
        for entry in self.entries:
            yield from entry.examples or (entry.name,)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Registry) and (self.entries, self.options) == (other.entries, other.options)

    __hash__ = None  # type: ignore[assignment]

    def format_names(self) -> str:
        """Return the names of all entries, separated by commas."""
        return ", ".join(entry.name for entry in self.entries)

    def check_name(self, name: Any) -> Any:
        """Return a name that is in the registry; for `pydantic.BeforeValidator`.

        Raises:
            ValueError: if it is not; the message lists the names.
        """
        if name not in self:
            raise ValueError(f"one of {self.format_names()}")
        return name

    def _find_entry(self, name: object) -> tuple[Entry, tuple[str, ...]] | None:
        """Return the entry of a name and the texts of the name's parameters."""
        if not isinstance(name, str):
            return None
        if entry := self._by_name.get(name):
            return entry, ()
        matches = ((entry, re.fullmatch(entry.pattern, name)) for entry in self.entries if entry.pattern)
        return next(((entry, match.groups()) for entry, match in matches if match), None)


def load_object(reference: str) -> Any:
    """Return the object that "module:attribute" refers to.

    Example:
        >>> load_object("math:floor")(2.5)
        2
    """
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)


def make_lazy_getattr(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` (PEP 562) for a package that imports a module when one of its names is first used.

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
        return load_object(f"{package}.{modules[name]}:{name}")

    return get
