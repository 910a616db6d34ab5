"""Registries of what a user chooses by name, and other names whose objects are imported on first use.

An installed package adds to a registry by an entry point, which it names in its pyproject.toml:

    [project.entry-points."ranker_studies.metrics"]
    rbp = "own_package.entries:RBP"
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trainables.utils.errors import MachineError, UserError, raise_if_any

T = TypeVar("T")

_PREFIX = "ranker_studies."
_FREE_NAME = "a free name: rename the entry, or uninstall one of the packages"
_REPAIR = "one that can be imported: repair the package, or uninstall it"


class Provider(NamedTuple):
    """Entry point of a package.

    Attributes:
        package: name and version of the package.
        group: name of the registry that it adds to.
        name: name of the entry point.
        reference: "module" or "module:attribute".
    """

    package: str
    group: str
    name: str
    reference: str

    @property
    def place(self) -> str:
        """Place of the entry point, for messages."""
        return f"package {self.package}, entry point {self.name} of {_PREFIX}{self.group}"

    def load(self) -> Any:
        """Return the object or module of the entry point.

        Raises:
            UserError: if it cannot be imported.
        """
        return self.load_reference(self.reference)

    def load_reference(self, reference: str) -> Any:
        """Return an object or module of the package.

        Args:
            reference: "module" or "module:attribute".

        Raises:
            UserError: if it cannot be imported.
        """
        try:
            return load_object(reference)
        except Exception as error:  # the code of the package may raise anything
            raise UserError(self.place, f"{reference} ({type(error).__name__}: {error})", _REPAIR) from error


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
        provider: entry point of the package that provides it. None for an entry of this project.
    """

    name: str
    target: Any
    line: str
    source: str
    options: tuple[str, ...] = ()
    pattern: str | None = None
    examples: tuple[str, ...] = ()
    provider: Provider | None = field(default=None, kw_only=True)

    @property
    def place(self) -> str:
        """Place of the entry, for messages."""
        return self.provider.place if self.provider else f"entry {self.name}"

    def load_target(self) -> Any:
        """Return the target, which is imported if necessary.

        Raises:
            UserError: if it is that of another package and cannot be imported.
        """
        if not isinstance(self.target, str):
            return self.target
        return self.provider.load_reference(self.target) if self.provider else load_object(self.target)


class _Accepted(NamedTuple):
    """The entries of a registry that can be used, and what is wrong with the others."""

    entries: tuple[Entry, ...]
    errors: tuple[UserError, ...]


class Registry(Mapping[str, T]):
    """Mapping from names to objects, each described by an entry.

    The entries of installed packages follow those of this project. They are imported when the registry is first used.
    A wrong entry is left out of the names, so that a help text can still be printed. As soon as any name is looked up,
    its error is raised.

    Args:
        entries: the entries of this project, in the order in which they are listed.
        options: names of the settings that change what every entry does.
        group: group of the entry points by which packages add entries, without "ranker_studies.". If None, they cannot.
        complete: returns an entry with all its options, given also the entries before it. It raises UserError if the
            entry is wrong. If None, entries are complete.

    Raises:
        KeyError: if a name is unknown; the message lists the names.
        UserError: if any entry is wrong.

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

    def __init__(
        self,
        *entries: Entry,
        options: tuple[str, ...] = (),
        group: str | None = None,
        complete: Callable[[Entry, Sequence[Entry]], Entry] | None = None,
    ) -> None:
        self.options, self._own, self._group, self._complete = options, entries, group, complete

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries that can be used, in the order in which they are listed."""
        return self._accepted.entries

    @property
    def errors(self) -> tuple[UserError, ...]:
        """Errors of the entries that are wrong, one for each."""
        return self._accepted.errors

    @cached_property
    def _accepted(self) -> _Accepted:
        entries, errors = list[Entry](), list[UserError]()
        added = find_providers().get(self._group, ()) if self._group else ()
        sources: list[Entry | Provider] = [*self._own, *added]
        for source in sources:
            try:
                entry = source if isinstance(source, Entry) else load_entry(source)
                if other := next((other for other in entries if _share_a_name(entry, other)), None):
                    owner = other.provider.place if other.provider else "this project"
                    raise UserError(entry.place, f"the name {entry.name}, which {owner} has", _FREE_NAME)
                if isinstance(entry.target, str):
                    check_module(entry, entry.target)
                entries.append(self._complete(entry, entries) if self._complete else entry)
            except UserError as error:
                errors.append(error)
        return _Accepted(tuple(entries), tuple(errors))

    @cached_property
    def _by_name(self) -> dict[str, Entry]:
        return {entry.name: entry for entry in self.entries if entry.pattern is None}

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

    def suggest_spelling(self, name: object) -> str:
        r"""Return a hint at the name that differs from this one in capital letters alone; empty if there is none.

        Example:
            >>> Registry(Entry("MRR@<k>", str, "", "", pattern=r"MRR@(\d+)")).suggest_spelling("mrr@10")
            '; did you mean MRR@10?'
        """
        for entry in self.entries if isinstance(name, str) else ():
            if match := re.fullmatch(entry.pattern or re.escape(entry.name), str(name), re.IGNORECASE):
                parameters = iter(match.groups())
                found = re.sub("<[^>]*>", lambda _: next(parameters), entry.name)  # noqa: B023
                if found in self and found != name:
                    return f"; did you mean {found}?"
        return ""

    def get_source(self, name: str) -> str:
        """Return the paper or library that defines an entry.

        Raises:
            KeyError: if the name is unknown.

        Example:
            >>> means = Registry(Entry("mean", "statistics:mean", "sum divided by the count", "any textbook"))
            >>> means.get_source("mean")
            'any textbook'
        """
        if (found := self._find_entry(name)) is None:
            raise KeyError(name)
        return found[0].source

    def find_package(self, name: object) -> str | None:
        """Return name and version of the package that provides a name.

        Returns:
            None if this project provides it, or if nothing has this name.
        """
        found = self._find_entry(name)
        return found[0].provider.package if found and found[0].provider else None

    def load_part(self, name: str, reference: str) -> Any:
        """Return an object that an entry names as text.

        Args:
            name: name of the entry.
            reference: "module:attribute".

        Raises:
            UserError: if the entry is that of another package and the object cannot be imported.
        """
        found = self._find_entry(name)
        provider = found[0].provider if found else None
        return provider.load_reference(reference) if provider else load_object(reference)

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
        raise_if_any(self.errors)
        if not isinstance(name, str):
            return None
        if entry := self._by_name.get(name):
            return entry, ()
        matches = ((entry, re.fullmatch(entry.pattern, name)) for entry in self.entries if entry.pattern)
        return next(((entry, match.groups()) for entry, match in matches if match), None)


def load_object(reference: str) -> Any:
    """Return the module or the object that "module" or "module:attribute" refers to.

    Example:
        >>> load_object("math:floor")(2.5)
        2
    """
    module, _, attribute = reference.partition(":")
    found = import_module(module)
    for name in filter(None, attribute.split(".")):
        found = getattr(found, name)
    return found


_DYNAMIC = ("__getattr__", "*", "globals", "locals", "vars", "setattr", "exec")
"""Names in the source of a module that may have other names than those that it contains."""


def check_module(entry: Entry, reference: str) -> None:
    """Raise an error if a reference of an installed package can refer to nothing; the module is not imported.

    Args:
        entry: entry that has the reference.
        reference: "module:attribute".

    Raises:
        UserError: if there is no such module, or its source cannot be read or defines no such attribute.
    """
    module, _, attribute = reference.partition(":")
    if not entry.provider:
        return
    if (spec := _find_module(module)) is None:
        raise UserError(entry.place, f"{reference} (no module {module})", _REPAIR)
    try:
        is_there = not attribute or _has_name(spec, attribute.partition(".")[0])
    except (OSError, ValueError, SyntaxError) as error:
        problem = f"{reference} (module {module} cannot be read: {type(error).__name__}: {error})"
        raise UserError(entry.place, problem, _REPAIR) from error
    if not is_there:
        raise UserError(entry.place, f"{reference} (module {module} has no {attribute})", _REPAIR)


def _find_module(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError, AttributeError):  # a package around it is missing, or the name is empty
        return None


def _has_name(spec: ModuleSpec, name: str) -> bool:
    """Return whether a module has a name, or may have it where its source does not say so."""
    if spec.name in sys.modules:
        return hasattr(sys.modules[spec.name], name)
    source = Path(spec.origin or "")
    if source.suffix != ".py":
        return True
    names = set[str]()
    for node in ast.walk(ast.parse(source.read_bytes())):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name():
                names.add(node.id)
            case ast.alias():
                names.add(node.asname or node.name.partition(".")[0])
    return not names.isdisjoint({name, *_DYNAMIC})


def check_installed(packages: Iterable[str]) -> None:
    """Check that this process has the packages that another one has.

    Args:
        packages: packages that add to registries, as "name version".

    Raises:
        MachineError: if a package is missing here or has another version.
    """
    if missing := [package for package in packages if package not in list_installed_packages()]:
        raise MachineError(f"the package {missing[0]}, which the run uses, is not installed on this node")


def list_installed_packages() -> set[str]:
    """Return the packages that add to registries, as "name version"."""
    return {provider.package for providers in find_providers().values() for provider in providers}


@cache
def find_providers() -> dict[str, tuple[Provider, ...]]:
    """Return the entry points of all installed packages by the registry that they add to.

    They are in the order of the names of the packages, so that it is the same on every machine. The packages are not
    imported. The answer is kept as long as the process lives.
    """
    from importlib.metadata import entry_points  # imported here, because many programs end before they need it

    installed, found = entry_points(), dict[str, set[Provider]]()
    for group in filter(lambda name: name.startswith(_PREFIX), installed.groups):
        for point in installed.select(group=group):
            package = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
            own = Provider(package, group.removeprefix(_PREFIX), point.name, point.value)
            found.setdefault(own.group, set()).add(own)
    return {group: tuple(sorted(providers)) for group, providers in sorted(found.items())}


def load_entry(provider: Provider) -> Entry:
    """Return the entry that a package provides.

    Raises:
        UserError: if it cannot be imported or is no entry.
    """
    entry = provider.load()
    if not isinstance(entry, Entry):
        raise UserError(provider.place, repr(entry), "an Entry of trainables.utils.registry")
    return replace(entry, provider=provider)


def _share_a_name(entry: Entry, other: Entry) -> bool:
    """Return whether a name of one entry is also a name of the other."""
    return any(
        name == first.name or (first.pattern and re.fullmatch(first.pattern, name))
        for first, second in ((entry, other), (other, entry))
        for name in (second.name, *second.examples)
    )


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
