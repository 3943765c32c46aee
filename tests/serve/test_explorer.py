"""The explorer in a real browser: everything one can do there, and that it stays in its bounds.

Chromium is looked for on the PATH; without one these tests are skipped.
"""

import json
import re
import shutil
import urllib.parse
from contextlib import contextmanager

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.serve.operations import Service
from tests.serve.conftest import SENTENCES, running

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is absent")
expect = sync_api.expect
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.needs("browser")
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


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser):
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        context.set_default_timeout(20_000)
        yield context


@pytest.fixture
def page(context, address):
    """The page, with its three bows; a test fails on any error it logs or outside request."""
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(address) else problems.append(request.url),
    )
    open_page(page, address)
    yield page
    assert problems == []


def open_page(page, address, **said):
    fragment = urllib.parse.urlencode({"text": "\n".join(BOWS), **said})
    page.goto(f"{address}/#{fragment}")
    page.wait_for_selector("#heatmap tbody tr")


def cells(page):
    rows = page.locator("#heatmap tbody tr").all()
    return np.array([[float(td.inner_text()) for td in row.locator("td").all()] for row in rows])


def bows(model, weights, gamma=1.0):
    vectors = [gamma * text.vectors(weights) for text in model.embed(BOWS)]
    return np.stack([vectors[0][3], vectors[1][3], vectors[2][1]])


def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def slide(page, name, value):
    page.locator(f"#{name}").fill(str(value))


def test_every_pair_of_a_word_is_compared_in_the_layer_that_is_chosen(page, model):
    assert page.locator("#compared-word").input_value() == "bow"
    np.testing.assert_allclose(cells(page), cosines(bows(model, "top")), atol=0.006)
    for layer in (0, 1, 2):
        page.locator(".layer").nth(layer).click()
        np.testing.assert_allclose(cells(page), cosines(bows(model, layer)), atol=0.006)
        assert page.locator(".layer").nth(layer).get_attribute("aria-pressed") == "true"


def test_the_heat_map_follows_the_sliders(page, model):
    for name, value in {"weight-0": 0.5, "weight-1": 0.5, "weight-2": 0}.items():
        slide(page, name, value)
    np.testing.assert_allclose(cells(page), cosines(bows(model, [0.5, 0.5, 0])), atol=0.006)
    assert page.locator("#weight-0-value").inner_text() == "0.50"
    page.get_by_label("distance").check()
    slide(page, "gamma", 2)
    scaled = bows(model, [0.5, 0.5, 0], 2)
    expected = np.linalg.norm(scaled[:, None] - scaled, axis=-1)
    np.testing.assert_allclose(cells(page), expected, atol=0.006)


def test_typing_changes_what_is_compared(page):
    page.locator("#text").fill("One ship here .\nAnother ship there .\nA third ship .")
    expect(page.locator("#compared-word")).to_have_value("ship")
    assert cells(page).shape == (3, 3)
    page.locator("#text").fill("Nothing twice .")
    page.wait_for_selector("#nothing-to-compare", state="visible")
    page.get_by_role("button", name="bank", exact=True).click()
    expect(page.locator("#compared-word")).to_have_value("bank")


def test_a_clicked_word_shows_its_neighbors_in_the_text(page, client):
    page.locator('[data-sentence="1"][data-position="3"]').click()
    answer = client.post(
        "/api/neighbors",
        json={"sentence": BOWS[1].split(), "position": 3, "k": 8, "layers": [0, 0, 1]},
    ).json()
    expect(page.locator("#neighbors li")).to_have_count(len(answer["in_context"]))
    shown = page.locator("#neighbors li").all()
    for item, expected in zip(shown, answer["in_context"], strict=True):
        assert item.locator("mark").inner_text() == expected["tokens"][expected["position"]]
        assert item.locator(".value").inner_text() == f"{expected['similarity']:.2f}"
    static = page.locator("#static .subject").all_inner_texts()
    assert static == [word["word"] for word in answer["without_context"]]
    page.get_by_label("any word").check()
    expect(page.locator("#neighbors li")).to_have_count(8)


def test_surprise_hangs_under_every_word_and_substitutes_stand_beside_it(page, model):
    scored = model.score(BOWS)
    bars = page.locator("#sentences li").nth(0).locator(".bars")
    assert bars.count() == len(BOWS[0].split())
    sentence = scored[0].sentences[0]
    told = bars.nth(3).get_attribute("title")
    assert f"{sentence.surprisal('forward')[3]:.1f} bits given the words before" in told
    assert f"{sentence.surprisal('backward')[3]:.1f} bits given the words after" in told
    numbers = [f"{sentence.surprisal(way)[3]:.0f}" for way in ("forward", "backward")]
    word = page.locator('[data-sentence="0"][data-position="3"]')
    assert word.locator(".number-of").all_inner_texts() == numbers
    assert page.locator(".axis").first.inner_text().split() == ["0", "10", "20"]
    arrow = page.locator('[data-sentence="1"][data-position="5"]')
    assert "not in the vocabulary" in arrow.locator(".bars").get_attribute("title")
    arrow.click()
    page.wait_for_selector("#word-unknown", state="visible")
    expected = [s.word for s in model.substitutes(BOWS[1].split(), 5, 8)]
    expect(page.locator("#substitutes .subject")).to_have_text(expected)
    bars = page.locator("#substitutes .share").all()
    assert len({round(bar.bounding_box()["x"]) for bar in bars}) == 1


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
    np.testing.assert_allclose(np.array(places()) - zoomed, [[30, 20]] * 3, atol=0.5)
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(page.locator("#map .point").first).not_to_have_css("transform", str(zoomed[0]))
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


def test_a_point_shows_its_sentence_under_the_pointer(page):
    page.locator('#map .point[aria-label="bow, sentence 2"] circle').hover()
    expect(page.locator("#map-tip")).to_contain_text("He drew a bow and arrow.")


def test_text_from_right_to_left_is_shown_so(page):
    page.locator("#text").fill("הוא הלך הביתה .\nהיא הלכה אל הבנק ליד הבנק .")
    expect(page.locator("#sentences li")).to_have_count(2)
    for selector in ("#text", "#sentences li", "#word-sentence"):
        assert page.locator(selector).first.evaluate("e => getComputedStyle(e).direction") == "rtl"
    page.get_by_label("only the compared word").uncheck()
    assert page.locator("#map .point").count() == 9


def test_a_page_of_text_is_tagged(page):
    page.locator("#task-text").fill("Alan 🙂 went to\nParis with ann.")
    page.locator("#predict").click()
    page.wait_for_selector("#prediction .labeled")
    labeled = page.locator("#prediction .labeled").all_inner_texts()
    assert [text.removesuffix("NAME").strip() for text in labeled] == ["Alan", "Paris"]
    shown = page.locator("#prediction").text_content()
    assert shown.replace("NAME", "") == "Alan 🙂 went to\nParis with ann."


def test_spans_may_be_nested_and_crossing_ones_are_left_out(page):
    shown = page.evaluate(
        """import('/static/tasks.js').then(({ markSpans }) => {
            const offsets = [[0, 1], [2, 3], [4, 5], [6, 7]];
            const spans = [
                { start: 0, end: 3, name: "1" },
                { start: 1, end: 2, name: "2" },
                { start: 2, end: 4, name: "2" },
            ];
            const made = markSpans("🙂 b c d", offsets, spans, ["1", "2"]);
            return [made.textContent, made.querySelector(".labeled .labeled").textContent];
        })"""
    )
    assert shown == ["🙂 b2 c1 d", "b2"]


def test_without_a_task_model_there_is_no_prediction(context, model):
    with running(Service(model, "tiny")) as (bare_address, _):
        page = context.new_page()
        open_page(page, bare_address)
        assert page.locator("#tasks").is_hidden()
        assert page.locator("#no-index").is_visible()
        assert page.locator("#neighbors-part").is_hidden()


def test_the_calls_that_can_be_copied_give_what_is_on_the_screen(page, model, monkeypatch, capsys):
    page.locator(".layer").nth(1).click()
    page.locator('[data-copy="call-python"]').click()
    code = page.evaluate("navigator.clipboard.readText()")
    monkeypatch.setattr("elmo.Elmo.load", lambda name: model, raising=True)
    exec(compile(code, "copied", "exec"), {})  # the very text that a user would paste
    printed = capsys.readouterr().out
    square = re.findall(r"-?\d+\.?\d*", printed.partition("['")[0])
    np.testing.assert_allclose(np.array(square, float).reshape(3, 3), cells(page), atol=0.011)
    assert "Substitute(" in printed

    curl = page.locator("#call-curl").text_content()
    assert curl.count("curl http://127.0.0.1") == 4
    body = json.loads(curl.split("-d '")[1].split("'\n")[0])
    assert body == {"texts": BOWS, "layers": [0, 1, 0]}


def test_the_calls_for_texts_of_one_word_can_be_copied_too(page, address, model, monkeypatch):
    open_page(page, address, text="bow\nbow\nbow")
    code = page.locator("#call-python").text_content()
    monkeypatch.setattr("elmo.Elmo.load", lambda name: model, raising=True)
    exec(compile(code, "copied", "exec"), {})
    assert code.count("texts, single_words=True") == 2


def test_a_link_brings_back_what_was_on_the_screen(page, context, address):
    page.locator('[data-sentence="2"][data-position="4"]').click()
    for name, value in {"weight-0": 0.2, "weight-1": 0.6, "weight-2": 0.2, "gamma": 1.5}.items():
        slide(page, name, value)
    page.get_by_label("distance").check()
    page.get_by_label("word", exact=True).check()
    page.locator('[data-copy="link"]').click()
    link = page.evaluate("navigator.clipboard.readText()")
    other = context.new_page()
    other.goto(link)
    other.wait_for_selector("#heatmap tbody tr")
    for selector in ("#heatmap", "#word-sentence", "#sliders", "#call-curl", "#map-note"):
        assert other.locator(selector).text_content() == page.locator(selector).text_content()
    assert other.locator("#text").input_value() == "\n".join(BOWS)
    assert other.get_by_label("distance").is_checked()


NASTY = [
    "<img src=x onerror=alert(1)> bow",
    "<script>document.title='bow'</script> bow",
    '"><svg onload=alert(2)> bow',
    "javascript:alert(3) {{7*7}} ${bow} bow",
]


def test_markup_in_a_sentence_stays_text(page, context):
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    page.locator("#text").fill("\n".join(NASTY))
    expect(page.locator("#sentences")).to_contain_text("javascript")
    page.locator("#sentences .word").first.click()
    page.locator("#task-text").fill("<b>Bold</b> <img src=x onerror=alert(4)>")
    page.locator("#predict").click()
    page.wait_for_selector("#prediction .labeled")
    assert page.locator("main img, main script, main svg svg, #prediction b").count() == 0
    assert page.title() == "elmo · explorer"
    assert "<img" in page.locator("#prediction").text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_is_found_by_axe(page, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is absent")
    page.emulate_media(color_scheme=scheme)
    page.locator("#task-text").fill("Alan went to Paris.")
    page.locator("#predict").click()
    page.wait_for_selector("#prediction .labeled")
    page.wait_for_selector("#neighbors li")
    page.wait_for_timeout(400)  # colors have stopped changing
    faults = [
        f"{fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in axe.Axe().run(page).response["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]
    assert faults == []


def test_everything_can_be_reached_by_keyboard(page):
    page.locator("#text").focus()
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(e => e.id || e.name || e.getAttribute('class'))(document.activeElement)"
            )
        )
    assert {"compared-word", "layer", "weight-0", "gamma", "measure", "color", "only"} <= reached
    assert {"word", "word compared", "any-word", "predict", "task"} <= reached
    assert {"zoom-in"} <= reached
    page.locator('[data-sentence="0"][data-position="1"]').focus()
    page.keyboard.press("Enter")
    assert page.locator("#word-sentence mark").inner_text() == "took"
    assert page.evaluate("document.activeElement.dataset.position") == "1"
    page.locator("#weight-1").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#weight-1").input_value() == "0.01"


def test_on_a_phone_nothing_runs_over_the_edge(browser, address):
    with browser.new_context(viewport={"width": 360, "height": 740}) as context:
        page = context.new_page()
        open_page(page, address)
        page.wait_for_selector("#neighbors li")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        rows = page.locator("#occurrences li").all_inner_texts()
        assert [" ".join(row.split()) for row in rows] == [
            "I took a bow.",
            "He drew a bow and arrow.",
            "The bow of the ship was old …",
        ]


def test_the_api_has_a_page_whose_examples_run(context, address):
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on(
        "request",
        lambda request: None if request.url.startswith(address) else problems.append(request.url),
    )
    page.goto(f"{address}/docs")
    page.wait_for_selector(".opblock")
    paths = page.locator(".opblock-summary-path").evaluate_all(
        "paths => paths.map(path => path.dataset.path)"
    )
    for path in ("/api/embed", "/api/predict/{task}", "/v1/embeddings", "/embed_all", "/ready"):
        assert path in paths
    for path in ("/api/embed", "/api/substitutes", "/v1/embeddings", "/embed_all"):
        block = page.locator(".opblock", has=page.locator(f'[data-path="{path}"]'))
        block.locator(".opblock-summary-control").click()
        block.get_by_role("button", name="Execute").click()
        expect(block.locator(".live-responses-table .response-col_status").last).to_contain_text(
            "200"
        )
    assert [problem for problem in problems if not problem.startswith("data:")] == []


def test_a_token_is_asked_for_once(context, service):
    with running(service, "a-long-secret-token") as (address, _):
        page = context.new_page()
        page.goto(address)
        page.locator("#token").fill("a-long-secret-token")
        page.get_by_role("button", name="Continue").click()
        page.wait_for_selector("#heatmap tbody tr")
        assert "Authorization: Bearer $TOKEN" in page.locator("#call-curl").text_content()
        assert "a-long-secret-token" not in page.content()
        page.reload()
        page.wait_for_selector("#heatmap tbody tr")


def test_the_examples_separate_the_senses_in_the_top_layer(page):
    english = Elmo.load("english")
    examples = page.evaluate("import('/static/examples.js').then((all) => all.EXAMPLES)")
    for word, senses in examples.items():
        vectors, labels = [], []
        for label, sentences in enumerate(senses):
            for text in english.embed(sentences):
                vectors.append(text.vectors("top")[text.tokens.index(word)])
                labels.append(label)
        is_same = np.equal.outer(labels, labels)
        similarities = cosines(np.stack(vectors))
        assert similarities[is_same].min() > similarities[~is_same].max() + 0.1, word


@contextmanager
def paused(page, pattern):
    """Requests wait until the end of the block."""
    waiting = []
    page.route(pattern, lambda route: waiting.append(route))
    yield waiting
    for route in waiting:
        route.continue_()
    page.unroute(pattern)


def test_the_page_says_that_it_is_loading(context, address):
    page = context.new_page()
    with paused(page, "**/api/info"):
        page.goto(address)
        expect(page.locator("#message")).to_have_text("Loading…")
        assert page.locator("#results").is_hidden()
    page.wait_for_selector("#heatmap tbody tr")
    expect(page.locator("#message")).to_be_empty()


def test_results_are_dimmed_while_new_ones_are_computed(page):
    with paused(page, "**/api/score") as waiting:
        page.locator("#text").fill("One ship here .\nAnother ship there .")
        expect(page.locator("#message")).to_have_text("Computing…")
        expect(page.locator("#results")).to_have_css("opacity", "0.4")
        assert page.locator("#compared-word").input_value() == "bow"
        while not waiting:
            page.wait_for_timeout(50)
    expect(page.locator("#compared-word")).to_have_value("ship")
    expect(page.locator("#results")).to_have_css("opacity", "1")


def test_results_disappear_with_the_text(page):
    page.locator("#text").fill("")
    expect(page.locator("#results")).to_be_hidden()
    expect(page.locator("#message")).to_contain_text("choose an example")
    page.locator("#text").fill("\n".join(BOWS))
    expect(page.locator("#heatmap tbody tr")).to_have_count(3)


def test_a_late_response_does_not_replace_a_newer_one(page):
    page.locator("#text").fill("One ship here .\nAnother ship there .")
    with page.expect_request("**/api/embed"):
        pass
    page.get_by_role("button", name="bank", exact=True).click()
    expect(page.locator("#compared-word")).to_have_value("bank")
    page.wait_for_timeout(500)
    assert page.locator("#compared-word").input_value() == "bank"


@pytest.mark.parametrize("part", ["substitutes", "neighbors"])
def test_an_error_is_shown_where_it_happens(context, address, part):
    page = context.new_page()
    open_page(page, address)
    page.wait_for_selector("#neighbors li")
    failure = {"status": 503, "json": {"error": "the queue is full"}}
    page.route(f"**/api/{part}", lambda route: route.fulfill(**failure))
    page.locator('[data-sentence="0"][data-position="1"]').click()
    expect(page.locator(f"#{part}-error")).to_have_text("the queue is full")
    assert page.locator(f"#{part} li").count() == 0
    expect(page.locator("#message")).to_be_empty()
    page.unroute(f"**/api/{part}")
    page.locator('[data-sentence="0"][data-position="3"]').click()
    expect(page.locator(f"#{part}-error")).to_be_empty()


def test_an_error_of_a_task_is_shown_beside_the_task(context, address):
    page = context.new_page()
    open_page(page, address)
    page.locator("#task-text").fill("word " * 101)
    page.locator("#predict").click()
    expect(page.locator("#task-error")).to_contain_text("max_sentence_tokens")
    expect(page.locator("#message")).to_be_empty()


def test_sixty_sentences_stay_usable(context, service):
    with running(service) as (address, _):
        page = context.new_page()
        sentences = [f"The ship number {k} took a bow ." for k in range(60)]
        open_page(page, address, text="\n".join(sentences), word="bow")
        assert page.locator("#heatmap tbody tr").count() == 60
        for selector in ("#text", ".table-frame", ".sentences-frame"):
            assert page.locator(selector).bounding_box()["height"] < 720
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert page.evaluate("document.querySelectorAll('#layers *').length") < 200
        page.locator(".layer").nth(0).click()
        expect(page.locator("#heatmap tbody td").nth(1)).to_have_attribute("title", "1 and 2: 1.00")


def test_the_browser_goes_back_through_what_was_shown(page):
    top = cells(page)
    page.locator(".layer").nth(1).click()
    middle = cells(page)
    page.locator('[data-sentence="2"][data-position="2"]').click()
    page.get_by_role("button", name="bank", exact=True).click()
    expect(page.locator("#compared-word")).to_have_value("bank")
    page.go_back()
    expect(page.locator("#compared-word")).to_have_value("bow")
    expect(page.locator("#word-sentence mark")).to_have_text("of")
    page.go_back()
    np.testing.assert_array_equal(cells(page), middle)
    page.go_back()
    np.testing.assert_array_equal(cells(page), top)
    page.go_forward()
    np.testing.assert_array_equal(cells(page), middle)


def test_a_series_of_slider_moves_is_one_step_of_the_history(page):
    page.locator(".layer").nth(1).click()
    length = page.evaluate("history.length")
    for value in (0.2, 0.4, 0.6):
        slide(page, "weight-0", value)
    assert page.evaluate("history.length") == length + 1
    page.go_back()
    expect(page.locator("#weight-0-value")).to_have_text("0.00")


def test_a_refusal_is_told_on_the_page(context, address):
    page = context.new_page()
    open_page(page, address)
    page.locator("#text").fill("word " * 101)
    expect(page.locator("#message")).to_contain_text("max_sentence_tokens")
    page.locator("#text").fill("\n".join(BOWS))
    expect(page.locator("#message")).to_be_empty()


def test_sentences_of_the_indexed_text_are_not_their_own_neighbors(page):
    page.locator("#text").fill("\n".join(" ".join(tokens) for tokens in SENTENCES[:3]))
    expect(page.locator("#sentences li")).to_have_count(3)
    page.locator('[data-sentence="0"][data-position="3"]').click()
    page.wait_for_selector("#neighbors li")
    assert "I took a bow." not in page.locator("#neighbors .subject").all_inner_texts()
