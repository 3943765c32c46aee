"""Take the pictures of docs/serve.md: python docs/images/take.py http://127.0.0.1:8000/

Start `elmo serve -m MODEL --text TEXT` before; Chromium is looked for on the PATH.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent
# Name, width, height, colors, and the part of the page at its top.
PICTURES = (
    ("explorer", 1280, 1060, "light", None),
    ("explorer-dark", 1280, 1060, "dark", None),
    ("explorer-phone", 390, 1560, "light", None),
    ("explorer-map", 1280, 680, "light", "#map-title"),
    ("explorer-word", 1280, 1240, "light", "#read-title"),
)


def take(page: Page, address: str, name: str, top: str | None) -> None:
    """Open the page, wait until all of it is there, and take one picture."""
    page.goto(address)
    page.wait_for_selector("#neighbors li")
    if top is not None:
        page.locator(top).evaluate("title => title.closest('section').scrollIntoView()")
    page.wait_for_timeout(800)  # until nothing moves
    page.screenshot(path=FOLDER / f"{name}.png")


def main() -> None:
    """Take all of them."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox"]
        )
        for name, width, height, scheme, top in PICTURES:
            size = {"width": width, "height": height}
            with chromium.new_context(viewport=size, color_scheme=scheme) as context:
                take(context.new_page(), sys.argv[1], name, top)
        chromium.close()


if __name__ == "__main__":
    main()
