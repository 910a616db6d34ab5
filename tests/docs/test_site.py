"""The site builds without a warning, each of its links leads somewhere, and it loads nothing from another host."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.docs.blocks import ROOT

PACKAGES = ("mkdocs", "material", "mkdocstrings_handlers")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
LOADING = {"src", "srcset", "data", "poster", "action"}
"""Attributes whose address a browser loads by itself; `href` of all elements but links."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: pip install -e '.[docs]'"),
]


class Page(NamedTuple):
    """A page of the site: its anchors and what it refers to."""

    ids: set[str]
    links: list[str]
    loaded: list[str]


class _Reader(HTMLParser):
    """Collects the addresses and ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.page, self._in_style = Page(set(), [], []), False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.page.ids.add(value)
            elif name == "href" and tag in ("a", "area"):
                self.page.links.append(value)
            elif name == "href":
                self.page.loaded.append(value)
            elif name == "srcset":
                self.page.loaded.extend(part.split()[0] for part in value.split(","))
            elif name in LOADING:
                self.page.loaded.append(value)
            elif name == "style":
                self.page.loaded.extend(addresses_of_style(value))

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.page.loaded.extend(addresses_of_style(data))
            self._in_style = False


def addresses_of_style(text: str) -> list[str]:
    """Addresses that a style sheet loads."""
    found = re.findall(r"url\(([^)]*)\)|@import\s+([^;]+);", text)
    return [address.strip("'\" ") for groups in found for address in groups if address]


def read_page(path: Path) -> Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def is_elsewhere(address: str) -> bool:
    """Returns True if an address names a host."""
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme in ("http", "https")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def pages(site: Path) -> dict[Path, Page]:
    found = {path: read_page(path) for path in site.rglob("*.html")}
    assert len(found) > len(list((ROOT / "docs").rglob("*.md")))  # and that for what is not found
    return found


def target(site: Path, path: Path, address: str) -> Path:
    """The file that an address on a page means."""
    name = unquote(urlsplit(address).path)
    found = site / name.lstrip("/") if name.startswith("/") else path.parent / name
    return (path if not name else found / "index.html" if found.is_dir() else found).resolve()


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    by_path = {path.resolve(): page for path, page in pages.items()}
    broken = []
    for path, page in pages.items():
        for address in (*page.links, *page.loaded):
            if is_elsewhere(address) or urlsplit(address).scheme in ("data", "mailto", "javascript"):
                continue
            file, anchor = target(site, path, address), unquote(urldefrag(address).fragment)
            known = by_path[file].ids if file in by_path else {anchor}
            if not file.is_file() or (anchor and anchor not in known and not anchor.startswith("__")):
                broken.append(f"{path.relative_to(site)}: {address}")
    assert broken == []


def test_no_page_loads_anything_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    found = [f"{path.relative_to(site)}: {address}" for path, page in pages.items() for address in page.loaded
             if is_elsewhere(address)]  # fmt: skip
    for path in site.rglob("*.css"):
        addresses = addresses_of_style(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: {address}" for address in addresses if is_elsewhere(address)]
    assert found == []


def test_no_script_of_the_site_is_built_into_it(site: Path) -> None:
    assert not (site / "scripts").exists()


def test_addresses_are_found() -> None:
    reader = _Reader()
    reader.feed('<style>@import "https://a/b.css";</style><a id="x" href="y.html#z"></a><p style="content:url(c.png)">')
    assert reader.page == Page({"x"}, ["y.html#z"], ["https://a/b.css", "c.png"])
    assert is_elsewhere("//a/b")
    assert not is_elsewhere("b.css?c=d")
