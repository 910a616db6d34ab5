"""Extension of Griffe: reads the section `Example:` of a docstring as a section of examples, not as an admonition."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Renames the sections `Example:` of all docstrings to `Examples:`, which Griffe knows."""

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **others: Any) -> None:
        """Rename the sections of an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
