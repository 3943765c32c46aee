"""The map of the explorer: points, colors, clusters, labels, zoom and keyboard."""

import re

import numpy as np
import pytest

from tests.serve.conftest import running
from tests.serve.explorer_page import BOWS, expect, open_page

pytestmark = pytest.mark.needs("browser")


def test_words_are_points_whose_distances_are_those_of_a_pca(page, model):
    page.get_by_label("only the compared word").uncheck()
    page.locator(".layer").nth(1).click()
    page.wait_for_timeout(500)
    found = page.evaluate(
        "[...document.querySelectorAll('#map .point')].map(p => {"
        " const m = new DOMMatrix(getComputedStyle(p).transform);"
        " return [p.ariaLabel, m.e, m.f]; })"
    )
    tokens = [(token, s) for s, text in enumerate(BOWS) for token in text.split() if token != "."]
    assert sorted(name for name, _, _ in found) == sorted(
        f"{t}, sentence {s + 1}" for t, s in tokens
    )
    vectors = np.concatenate(
        [text.vectors(1)[[token != "." for token in text.tokens]] for text in model.embed(BOWS)]
    )
    centered = vectors - vectors.mean(0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    plane = centered @ axes[:2].T
    names = [f"{t}, sentence {s + 1}" for t, s in tokens]
    points = {name: np.array([x, y]) for name, x, y in found}
    expected, shown = [], []
    for i, one in enumerate(names):
        for j, two in enumerate(names):
            expected.append(np.linalg.norm(plane[i] - plane[j]))
            shown.append(np.linalg.norm(points[one] - points[two]))
    assert np.corrcoef(expected, shown)[0, 1] > 0.999


def colors(page):
    return page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#map .point')]"
        ".map(p => [p.ariaLabel, p.dataset.color]))"
    )


def test_points_are_colored_by_sentence_or_by_word(page):
    assert page.locator("#map .point").count() == 3
    page.get_by_label("only the compared word").uncheck()
    page.get_by_label("sentence", exact=True).check()
    by_sentence = colors(page)
    assert by_sentence["bow, sentence 1"] != by_sentence["bow, sentence 2"]
    assert by_sentence["bow, sentence 1"] == by_sentence["took, sentence 1"]
    page.get_by_label("word", exact=True).check()
    by_word = colors(page)
    assert by_word["bow, sentence 1"] == by_word["bow, sentence 2"] == by_word["bow, sentence 3"]
    assert by_word["bow, sentence 1"] != by_word["took, sentence 1"]
    assert page.locator("#map-key li").all_inner_texts()[0] == "bow"


def test_clusters_are_groups_of_similar_vectors(page):
    found = page.evaluate(
        """import('/static/clusters.js').then(({ clusters }) => [
            clusters([[1, 0], [0.9, 0.1], [0, 1], [0.1, 1], [1, 0.05]]),
            clusters([[1, 1], [1, 1], [2, 2]]),
            clusters([[1, 0, 0], [0.9, 0.1, 0], [0, 1, 0], [0, 0.9, 0.1], [0, 0, 1], [0.1, 0, 1]]),
        ])"""
    )
    assert found == [[0, 0, 1, 1, 0], [0, 0, 0], [0, 0, 1, 1, 2, 2]]


def label_boxes(page):
    page.wait_for_timeout(500)  # until nothing moves
    return page.evaluate(
        "[...document.querySelectorAll('#map .compared.labeled text')].map(t => {"
        " const b = t.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"
    )


@pytest.mark.parametrize("n_sentences", [3, 60])
def test_every_compared_word_has_a_label_and_none_overlap(context, service, n_sentences):
    with running(service) as (address, _):
        page = context.new_page()
        sentences = [f"The ship number {k} took a bow ." for k in range(n_sentences)]
        open_page(page, address, text="\n".join(sentences), word="bow")
        boxes = label_boxes(page)
    assert len(boxes) == n_sentences
    for k, one in enumerate(boxes):
        for two in boxes[:k]:
            is_apart = one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
            assert is_apart


def test_the_map_can_be_zoomed_and_moved(page):
    def places():
        return page.evaluate(
            "[...document.querySelectorAll('#map .point')]"
            ".map(p => { const m = new DOMMatrix(p.style.transform); return [m.e, m.f]; })"
        )

    at_first = np.array(places())
    page.locator("#zoom-in").click()
    zoomed = np.array(places())
    np.testing.assert_allclose(zoomed - zoomed[0], 1.5 * (at_first - at_first[0]), atol=0.1)
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 20, steps=3)
    page.mouse.up()
    moved = np.array(places())
    np.testing.assert_allclose(moved - zoomed, [[30, 20]] * 3, atol=0.5)
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function(
        "x => new DOMMatrix(document.querySelector('#map .point').style.transform).e != x",
        arg=moved[0, 0],
    )
    nearer = np.array(places())
    assert np.linalg.norm(nearer[1] - nearer[0]) > np.linalg.norm(moved[1] - moved[0])
    page.locator("#zoom-reset").click()
    np.testing.assert_allclose(places(), at_first, atol=0.1)


def test_the_map_works_with_the_keyboard(page):
    page.locator('#map .point[tabindex="0"]').focus()
    seen = set()
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown") * 3:
        page.keyboard.press(key)
        seen.add(page.evaluate("document.activeElement.ariaLabel"))
        expect(page.locator("#map-tip")).to_be_visible()
    assert len(seen) > 1
    name = page.evaluate("document.activeElement.ariaLabel")
    assert name.endswith(page.locator("#map-tip .hint").inner_text())
    page.keyboard.press("Enter")
    sentence = BOWS[int(name[-1]) - 1].removesuffix(" .") + "."
    expect(page.locator("#word-sentence")).to_have_text(sentence)
    assert page.evaluate("document.activeElement.ariaLabel") == name
    page.keyboard.press("+")
    expect(page.locator("#map")).to_have_class(re.compile("zoomed"))
    page.keyboard.press("0")
    expect(page.locator("#map")).not_to_have_class(re.compile("zoomed"))
    page.keyboard.press("Escape")
    expect(page.locator("#map-tip")).to_be_hidden()


def test_the_point_in_focus_is_inside_the_zoomed_map(page):
    page.locator('#map .point[tabindex="0"]').focus()
    for _ in range(4):
        page.keyboard.press("+")
    seen = set()
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown") * 2:
        page.keyboard.press(key)
        name, x, y, width, height = page.evaluate(
            "(() => { const point = document.activeElement;"
            " const m = new DOMMatrix(point.style.transform);"
            " const frame = document.getElementById('map').viewBox.baseVal;"
            " return [point.ariaLabel, m.e, m.f, frame.width, frame.height]; })()"
        )
        assert 0 < x < width
        assert 0 < y < height
        seen.add(name)
    assert len(seen) > 1
    expect(page.locator("#map-tip")).to_be_visible()


def test_a_tap_selects_a_point_after_a_finger_has_scrolled_the_page(browser, address):
    settings = {"has_touch": True, "viewport": {"width": 400, "height": 700}}
    with browser.new_context(**settings) as context:
        page = context.new_page()
        open_page(page, address, at="0,0")
        page.locator("#map").scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        page.evaluate(
            "document.getElementById('map').addEventListener('pointercancel',"
            " () => (document.body.dataset.isScrolled = 'yes'))"
        )
        box = page.locator("#map").bounding_box()
        x, y = box["x"] + 15, box["y"] + box["height"] / 2
        touch = context.new_cdp_session(page)

        def send(kind, *points):
            event = {"type": kind, "touchPoints": [{"x": x, "y": v} for v in points]}
            touch.send("Input.dispatchTouchEvent", event)

        send("touchStart", y)
        for k in range(1, 8):
            send("touchMove", y - 12 * k)
            page.wait_for_timeout(30)
        send("touchEnd")
        page.wait_for_selector("[data-is-scrolled]")
        page.wait_for_timeout(500)
        page.locator('#map .point[aria-label="bow, sentence 2"] circle').tap()
        expect(page.locator("#word-sentence")).to_have_text("He drew a bow and arrow.")


def test_a_point_shows_its_sentence_under_the_pointer(page):
    page.locator('#map .point[aria-label="bow, sentence 2"] circle').hover()
    expect(page.locator("#map-tip")).to_contain_text("He drew a bow and arrow.")
