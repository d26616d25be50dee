"""Makes the pictures of the pipeline's README: `python -m tests.pipeline.report_pictures REPORT.html DIRECTORY`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SHOTS = (
    ("report-desk", 1180, 960, "light", "#timelines"),
    ("report-phone", 390, 844, "dark", "body"),
)
"""Name, width, height, colour scheme, and what is at the top."""


def main(report: Path, to: Path) -> None:
    """Writes a picture for each of SHOTS."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, width, height, scheme, top in SHOTS:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            page.goto(report.resolve().as_uri())
            page.wait_for_function("document.documentElement.dataset.drawn")
            page.evaluate("(top) => document.querySelector(top).scrollIntoView()", top)
            page.screenshot(path=to / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
