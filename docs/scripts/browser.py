"""Looks at every page of a built site with Chromium, in light and dark, on a narrow and a wide screen.

    python -m docs.scripts.browser build/site [--screenshots FOLDER]

It builds nothing. It fails if a page writes to the console, loads anything that fails or comes from another host, or is
wider than the screen. It needs the extra `browser` (`pip install -e ".[browser]"`) and a Chromium on the path.
"""

import argparse
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import quote, urlsplit

from trainables.utils.cli import Parser, print_escaped, report_errors
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_HEIGHT = 900
"""Height of the screen in pixels."""
_WIDEST_ELEMENT = """() => {
    const { clientWidth: limit, scrollWidth: width } = document.documentElement;
    if (width <= limit) return null;
    const isOutside = (element) => element.getBoundingClientRect().right > limit + 0.5;
    const last = [...document.body.querySelectorAll("*")].filter(isOutside).at(-1);
    const place = last ? `, at <${last.tagName.toLowerCase()}> ${last.textContent.trim().slice(0, 60)}` : "";
    return `${width} pixels wide${place}`;
}"""
"""JavaScript that returns null, or by how much and where the page is wider than the screen."""


class Screen(NamedTuple):
    """How a page is looked at."""

    scheme: Literal["light", "dark"]
    width: int
    """Pixels."""

    def __str__(self) -> str:
        return f"{self.scheme}, {self.width} px"


SCREENS = (Screen("light", 390), Screen("light", 1400), Screen("dark", 390), Screen("dark", 1400))
"""Every combination in which each page is opened."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    parser = Parser(prog="python -m docs.scripts.browser", description="Look at every page of a built site.")
    parser.add_argument("site", type=Path, help="folder of the built site, e.g. build/site")
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER", help="also save a picture of every page there")
    options = parser.parse_args(argv)
    return report_errors("docs.scripts.browser", lambda: _check_site(options))


def list_pages(site: Path) -> list[str]:
    """Return the paths of the pages of a site, relative to it, sorted.

    Raises:
        UserError: there are none.
    """
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    if not pages:
        raise UserError(str(site), "no pages", "the folder of a built site, e.g. build/site after `make docs`")
    return pages


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine only, and yield its address."""
    handler = partial(_SilentHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class _SilentHandler(SimpleHTTPRequestHandler):
    """Handler of requests that prints nothing."""

    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


def find_faults(page: "Page", address: str, name: str, screenshot: Path | None = None) -> list[str]:
    """Open a page and return everything that is wrong with it, one line each.

    Args:
        page: page of a browser, which is used for this page alone.
        address: address of the site.
        name: path of the page in the site.
        screenshot: file for a picture of the page. If None, none is made.
    """
    faults: list[str] = []
    host = urlsplit(address).netloc
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("requestfailed", lambda request: faults.append(f"failed: {request.url}"))
    page.on(
        "request",
        lambda request: (
            faults.append(f"another host: {request.url}") if urlsplit(request.url).netloc not in ("", host) else None
        ),
    )
    page.on(
        "response",
        lambda response: faults.append(f"status {response.status}: {response.url}") if response.status >= 400 else None,
    )
    page.goto(f"{address}/{quote(name)}", wait_until="networkidle")
    if width := page.evaluate(_WIDEST_ELEMENT):
        faults.append(f"too wide: {width}")
    if screenshot:
        screenshot.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=screenshot, full_page=True)
    return faults


def _check_site(options: argparse.Namespace) -> int:
    pages = list_pages(options.site)
    with serve_folder(options.site) as address, open_browser() as browser:
        faults = [
            f"{name} ({screen}): {fault}"
            for screen in SCREENS
            for name, found in _check_pages(browser, screen, address, pages, options.screenshots)
            for fault in found
        ]
    for fault in faults:
        print_escaped(fault)
    print_escaped(f"{len(pages)} pages visited on {len(SCREENS)} screens each; faults: {len(faults)}")
    return 1 if faults else 0


def _check_pages(
    browser: "Browser", screen: Screen, address: str, pages: Sequence[str], screenshots: Path | None
) -> Iterator[tuple[str, list[str]]]:
    context = browser.new_context(
        color_scheme=screen.scheme, viewport={"width": screen.width, "height": _HEIGHT}, reduced_motion="reduce"
    )
    for name in pages:
        page = context.new_page()
        file = screenshots / f"{screen.scheme}-{screen.width}" / f"{name}.png" if screenshots else None
        yield name, find_faults(page, address, name, file)
        page.close()
    context.close()


@contextmanager
def open_browser() -> Iterator["Browser"]:
    """Open a browser with an empty profile.

    Raises:
        UserError: Playwright or Chromium is not installed.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise UserError("playwright", "not installed", "pip install -e '.[browser]'") from error
    program = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if program is None:
        raise UserError("PATH", f"none of {', '.join(_BROWSERS)}", "a Chromium, e.g. by `apt-get install chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS), headless=True)
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    raise SystemExit(main())
