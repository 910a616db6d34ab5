"""Hooks of MkDocs: the page changelog.md is the file CHANGELOG.md of the repository, with links that fit the site."""

from pathlib import Path
from typing import Any

_CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Return the text of a page."""
    if page.file.src_uri != "changelog.md":
        return markdown
    return _CHANGELOG.read_text(encoding="utf-8").replace("](docs/", "](")
