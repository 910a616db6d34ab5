"""Takes the screenshots of the documentation from the report of a real study.

    python -m docs.scripts.screenshots REPORT.html

The pictures in `docs/images` are of the quick study. It needs the extra `browser` and a Chromium on the path.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from docs.scripts.browser import open_browser
from trainables.utils.cli import Parser, report_errors
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

IMAGES = Path(__file__).parents[1] / "images"
_SIZE: "ViewportSize" = {"width": 1280, "height": 860}
_BADGE = """
([element, number]) => {
    const box = element.getBoundingClientRect();
    const badge = document.createElement("div");
    badge.textContent = number;
    const isHead = element.tagName === "TH";
    const left = isHead ? (box.left + box.right) / 2 - 12 : box.right - 30;
    const top = isHead ? box.top - 18 : box.top + 2;
    badge.style.cssText = `position: absolute; z-index: 9; left: ${left + window.scrollX}px;
        top: ${top + window.scrollY}px; width: 24px; height: 24px; border-radius: 50%; background: #c2410c;
        color: white; font: bold 14px/24px sans-serif; text-align: center;`;
    document.body.append(badge);
}
"""


class Picture(NamedTuple):
    """A part of the report with numbered marks."""

    name: str
    part: str
    """Selector of the part that is shown."""
    marks: tuple[str, ...]
    """Selectors of what gets the marks 1, 2, 3, ..."""


PICTURES = (
    Picture("report-answers", "dl.answers", tuple(f"dl.answers > div:nth-child({n})" for n in range(1, 5))),
    Picture(
        "report-systems",
        "section:has(h2:text-is('Systems'))",
        (
            "th:nth-child(2)",
            "th:nth-child(4)",
            "th:nth-child(5)",
            "th:nth-child(6)",
            "tbody tr:nth-child(6) td:last-child",
            "p.small",
        ),
    ),
    Picture(
        "report-comparisons",
        "section:has(h2:has-text('Comparisons: variants'))",
        (
            "th:nth-child(3)",
            "th:nth-child(4)",
            "th:nth-child(6)",
            "th:nth-child(7)",
            "th:nth-child(10)",
            "th:nth-child(11)",
            "th:nth-child(12)",
        ),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    parser = Parser(prog="python -m docs.scripts.screenshots", description="Take the pictures of a report.")
    parser.add_argument("report", type=Path, help="page of a report, e.g. results/quick/report/report.html")
    options = parser.parse_args(argv)
    return report_errors("docs.scripts.screenshots", lambda: _take_pictures(options.report.absolute()))


def _take_pictures(report: Path) -> None:
    if not report.is_file():
        raise UserError(str(report), "no such file", "the page of a report, e.g. results/quick/report/report.html")
    with open_browser() as browser:
        page = browser.new_page(viewport=_SIZE, bypass_csp=True, color_scheme="light")
        page.goto(report.as_uri())
        page.screenshot(path=IMAGES / "report.png")
        for picture in PICTURES:
            _take(page, picture)
            page.reload()


def _take(page: "Page", picture: Picture) -> None:
    part = page.locator(picture.part).first
    part.scroll_into_view_if_needed()
    for number, selector in enumerate(picture.marks, start=1):
        inside = page if selector.startswith(picture.part) else part
        page.evaluate(_BADGE, [inside.locator(selector).first.element_handle(), str(number)])
    box = part.bounding_box()
    assert box is not None
    margin = 16
    clip: Any = {
        "x": max(box["x"] - margin, 0),
        "y": box["y"] - margin,
        "width": min(box["width"] + 2 * margin, _SIZE["width"]),
        "height": box["height"] + 2 * margin,
    }
    page.screenshot(path=IMAGES / f"{picture.name}.png", clip=clip, full_page=False)


if __name__ == "__main__":
    raise SystemExit(main())
