"""Registries of what a user chooses by name, and other names with objects that are imported on first use.

A plug-in (`trainables.utils.plugins`) adds to a registry when it is imported:

    @PACING.register("square", "grows as a square: slowly at first", "an example", options=("delta", "duration"))
    def square(step, T, delta=0.33): ...
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from trainables.utils.errors import UserError
from trainables.utils.plugins import get_plugin_label

if TYPE_CHECKING:
    from trainables.utils.base_settings import Settings

T = TypeVar("T")
PLUGINS_HINT = "; one of your own needs its module in plugins"


@dataclass(frozen=True, eq=False)
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
        settings: class of the settings that the object has by itself, such as those of a schedule.
        module: module of the plug-in that registered it. None for an entry of this project.
    """

    name: str
    target: Any
    line: str
    source: str
    options: tuple[str, ...] = ()
    pattern: str | None = None
    examples: tuple[str, ...] = ()
    settings: "type[Settings] | None" = None
    module: str | None = None

    @property
    def plugin(self) -> str | None:
        """Name and digest of the package of the plug-in. None for an entry of this project."""
        return get_plugin_label(self.module) if self.module else None

    def load_target(self) -> Any:
        """Return the target, which is imported if necessary."""
        return load_object(self.target) if isinstance(self.target, str) else self.target


class Registry(Mapping[str, T]):
    """Mapping from names to objects, each described by an entry.

    Args:
        entries: the entries of this project, in the order in which they are listed.
        options: names of the settings that change what every entry does.
        kind: class of the objects that a plug-in may register. If None, they are callable.
        check: raises UserError for an entry of a plug-in that is wrong, given the place of the entry.

    Raises:
        KeyError: if a name is unknown; the message lists the names.

    Example:
        >>> means = Registry(Entry("mean", "statistics:mean", "sum divided by the count", "any textbook"))
        >>> @means.register("power_p", "power sum", "any textbook", pattern=r"power_([0-9])", examples=("power_2",))
        ... def make_power_sum(p):
        ...     return lambda values: sum(v ** int(p) for v in values)
        >>> means["mean"]([1, 2]), means["power_3"]([1, 2])
        (1.5, 9)
        >>> list(means), means.format_names()
        (['mean', 'power_2'], 'mean, power_p')
    """

    def __init__(
        self,
        *entries: Entry,
        options: tuple[str, ...] = (),
        kind: type[T] | None = None,
        check: Callable[[Entry, str], None] | None = None,
    ) -> None:
        self.entries, self.options, self._kind, self._check = entries, options, kind, check

    def register(self, name: str, line: str, source: str, **further: Any) -> Callable[[T], T]:
        """Return a decorator that adds an object, or a function of other objects than functions and classes.

        Args:
            name: name of the object.
            line: description, as of `Entry`.
            source: where it is defined.
            **further: further attributes of the entry.

        Raises:
            UserError: if the name is taken, or if the object is wrong.
        """
        module = sys._getframe(1).f_globals.get("__name__", "__main__")

        def add(target: T) -> T:
            entry, place = Entry(name, target, line, source, module=module, **further), f"{name!r} of {module}"
            if not (callable(target) if self._kind is None or entry.pattern else isinstance(target, self._kind)):
                raise UserError(
                    place, repr(target), f"a {self._kind.__name__}" if self._kind else "a function or class"
                )
            if other := next((other for other in self.entries if _share_a_name(entry, other)), None):
                raise UserError(place, f"the name {name}, which {other.module or 'this project'} has", "a free name")
            if self._check:
                self._check(entry, place)
            self.entries += (entry,)
            return target

        return add

    def __getitem__(self, name: str) -> T:
        if (found := self._find_entry(name)) is None:
            raise KeyError(f"{name!r}; expected {self.describe_names(name)}")
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

    def format_names(self) -> str:
        """Return the names of all entries, separated by commas."""
        return ", ".join(entry.name for entry in self.entries)

    def describe_names(self, name: object) -> str:
        """Return what is expected instead of an unknown name: the names, the nearest one, and where others come from.

        Example:
            >>> means = Registry(Entry("mean", "statistics:mean", "sum divided by the count", "any textbook"))
            >>> means.describe_names("maen")
            'one of mean; did you mean mean?'
        """
        return f"one of {self.format_names()}{self.suggest_spelling(name) or PLUGINS_HINT}"

    def suggest_spelling(self, name: object) -> str:
        r"""Return a hint at the most similar name; empty if there is none.

        Example:
            >>> Registry(Entry("MRR@<k>", str, "", "", pattern=r"MRR@(\d+)")).suggest_spelling("mrr@10")
            '; did you mean MRR@10?'
        """
        if not isinstance(name, str):
            return ""
        for entry in self.entries:
            if match := re.fullmatch(entry.pattern or re.escape(entry.name), name, re.IGNORECASE):
                parameters = iter(match.groups())
                found = re.sub("<[^>]*>", lambda _: next(parameters), entry.name)  # noqa: B023
                if found in self and found != name:
                    return f"; did you mean {found}?"
        similar = get_close_matches(name, [entry.name for entry in self.entries if not entry.pattern], n=1, cutoff=0.7)
        return f"; did you mean {similar[0]}?" if similar else ""

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

    def find_plugin(self, name: object) -> str | None:
        """Return name and digest of the plug-in that registered a name; None if it is none of a plug-in."""
        found = self._find_entry(name)
        return found[0].plugin if found else None

    def check_name(self, name: Any) -> Any:
        """Return a name that is in the registry; for `pydantic.BeforeValidator`.

        Raises:
            ValueError: if it is not; the message lists the names.
        """
        if name not in self:
            raise ValueError(self.describe_names(name))
        return name

    def _find_entry(self, name: object) -> tuple[Entry, tuple[str, ...]] | None:
        """Return the entry of a name and the texts of the name's parameters."""
        for entry in self.entries if isinstance(name, str) else ():
            if entry.pattern is None and entry.name == name:
                return entry, ()
            if entry.pattern and (match := re.fullmatch(entry.pattern, str(name))):
                return entry, match.groups()
        return None


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


def _share_a_name(entry: Entry, other: Entry) -> bool:
    """Return whether a name of one entry is also a name of the other."""
    return any(
        name == first.name or (first.pattern and re.fullmatch(first.pattern, name))
        for first, second in ((entry, other), (other, entry))
        for name in (second.name, *second.examples)
    )
