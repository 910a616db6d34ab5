"""Takes the screenshot of the documentation: the first screen of the report of a real study.

    python -m docs.scripts.screenshots REPORT.html

The picture in `docs/images` is of the quick study. It needs the extra `browser` and a Chromium on the path.
"""

import shutil
import sys
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "images"


def take_picture(report: Path) -> None:
    """Write the report down to its folded headings to `docs/images/report.png`."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 400}, color_scheme="light")
        page.goto(report.as_uri())
        page.screenshot(path=IMAGES / "report.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]).absolute())
