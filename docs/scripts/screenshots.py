"""Takes the screenshots of the documentation from the report of a real study.

    python -m docs.scripts.screenshots REPORT.html

The pictures in `docs/images` are of the quick study. It needs the extra `browser` and a Chromium on the path.
"""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

IMAGES = Path(__file__).parents[1] / "images"
_SIZE: "ViewportSize" = {"width": 1280, "height": 860}
_MARGIN = 16
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
PICTURES = {
    "report-answers": ("dl.answers", [f"xpath=div[{n}]" for n in range(1, 5)]),
    "report-systems": (
        "section:has(h2:text-is('Systems'))",
        [*(f"th:nth-child({n})" for n in (2, 4, 5, 6)), "tbody tr:nth-child(6) td:last-child", "p.small"],
    ),
    "report-comparisons": (
        "section:has(h2:has-text('Comparisons: variants'))",
        [f"th:nth-child({n})" for n in (3, 4, 6, 7, 10, 11, 12)],
    ),
}
"""Name of a picture -> selector of the part of the report, and selectors in it of what gets the marks 1, 2, 3, ..."""


def take_pictures(report: Path) -> None:
    """Write the first screen of the report, and each part with its marks."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=_SIZE, bypass_csp=True, color_scheme="light")
        page.goto(report.as_uri())
        page.screenshot(path=IMAGES / "report.png")
        for name, (part, marks) in PICTURES.items():
            _take(page, name, part, marks)
            page.reload()
        browser.close()


def _take(page: "Page", name: str, selector: str, marks: list[str]) -> None:
    part = page.locator(selector).first
    part.scroll_into_view_if_needed()
    for number, mark in enumerate(marks, start=1):
        page.evaluate(_BADGE, [part.locator(mark).first.element_handle(), str(number)])
    box = part.bounding_box()
    assert box is not None
    clip: Any = {
        "x": max(box["x"] - _MARGIN, 0),
        "y": box["y"] - _MARGIN,
        "width": min(box["width"] + 2 * _MARGIN, _SIZE["width"]),
        "height": box["height"] + 2 * _MARGIN,
    }
    page.screenshot(path=IMAGES / f"{name}.png", clip=clip, full_page=False)


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]).absolute())
