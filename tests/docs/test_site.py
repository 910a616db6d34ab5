"""The site builds without a warning, each of its links leads somewhere, and it loads nothing from another host."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.docs.blocks import ROOT

PACKAGES = ("mkdocs", "material", "mkdocstrings_handlers")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: pip install -e '.[docs]'"),
]


LOADED = re.compile(
    r'<(?!a\b|area\b)[^>]*?\s(?:src|href|data|poster|action)="([^"]+)|srcset="([^" ]+)'
    r"""|url\(['"]?([^'")]+)|@import\s+['"]([^'"]+)"""
)
"""An address that a browser loads by itself, on a page or in a style sheet."""


class Page(HTMLParser):
    """Anchors of a page, and where its links lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids, self.links = set[str](), list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values["href"]] if "href" in values else []


def list_loaded(text: str) -> list[str]:
    """Addresses that a page or a style sheet loads."""
    return [address for groups in LOADED.findall(text) for address in groups if address]


def is_elsewhere(address: str) -> bool:
    """Returns True if an address names a host."""
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme in ("http", "https")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    found = {path: Page(path) for path in site.rglob("*.html")}
    assert len(found) > len(list((ROOT / "docs").rglob("*.md")))  # and that for what is not found
    return found


def target(site: Path, path: Path, address: str) -> Path:
    """The file that an address on a page means."""
    name = unquote(urlsplit(address).path)
    found = site / name.lstrip("/") if name.startswith("/") else path.parent / name
    return (path if not name else found / "index.html" if found.is_dir() else found).resolve()


def test_every_link_and_anchor_leads_somewhere(site, pages):
    by_path = {path.resolve(): page for path, page in pages.items()}
    broken = []
    for path, page in pages.items():
        for address in page.links:
            if is_elsewhere(address) or urlsplit(address).scheme in ("data", "mailto", "javascript"):
                continue
            file, anchor = target(site, path, address), unquote(urldefrag(address).fragment)
            known = by_path[file].ids if file in by_path else {anchor}
            if not file.is_file() or (anchor and anchor not in known and not anchor.startswith("__")):
                broken.append(f"{path.relative_to(site)}: {address}")
    assert broken == []


def test_nothing_is_loaded_from_another_host(site):
    files = [path for kind in ("html", "css") for path in site.rglob(f"*.{kind}")]
    found = {address for path in files for address in list_loaded(path.read_text(encoding="utf-8"))}
    assert found
    assert [address for address in found if is_elsewhere(address)] == []


def test_no_script_of_the_site_is_built_into_it(site):
    assert not (site / "scripts").exists()
