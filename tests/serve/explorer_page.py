"""The explorer in a real browser, for its tests: the page with three bows, and what it shows.

Chromium is looked for on the PATH; without one these tests are skipped.
"""

import shutil
import urllib.parse

import numpy as np
import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is absent")
expect = sync_api.expect
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BOWS = ["I took a bow .", "He drew a bow and arrow .", "The bow of the ship was old ."]


def open_page(page, address, **said):
    fragment = urllib.parse.urlencode({"text": "\n".join(BOWS), **said})
    page.goto(f"{address}/#{fragment}")
    page.wait_for_selector("#heatmap tbody tr")


def cells(page):
    """The numbers of the heat map, all read at the same moment."""
    read = "rows => rows.map((row) => [...row.querySelectorAll('td')].map((td) => td.innerText))"
    return np.array(page.locator("#heatmap tbody tr").evaluate_all(read), float)


def bows(model, weights, gamma=1.0):
    vectors = [gamma * text.vectors(weights) for text in model.embed(BOWS)]
    return np.stack([vectors[0][3], vectors[1][3], vectors[2][1]])


def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def slide(page, name, value):
    page.locator(f"#{name}").fill(str(value))
    page.evaluate("() => new Promise(requestAnimationFrame)")  # the page draws in this frame
