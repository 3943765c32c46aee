"""The explorer: comparing, reading, predicting, copying, escaping, accessibility and tokens."""

import json
import re

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.serve.operations import Service
from tests.serve.conftest import running
from tests.serve.explorer_page import BOWS, bows, cells, cosines, expect, open_page, slide

pytestmark = pytest.mark.needs("browser")


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
    # The page was already open and shows the calls of the previous texts until it is updated.
    code = page.locator("#call-python", has_text="single_words=True").text_content()
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


@pytest.mark.parametrize("wrong", ["wrong-token", "“a-long-secret-token”"])
def test_a_wrong_token_is_refused_and_not_kept(context, service, wrong):
    with running(service, "a-long-secret-token") as (address, _):
        page = context.new_page()
        page.goto(address)
        expect(page.locator("#token-dialog")).to_be_visible()
        expect(page.locator("#token-error")).to_be_empty()
        page.locator("#token").fill(wrong)
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("#token-error")).to_have_text("The server does not accept this token.")
        page.reload()
        expect(page.locator("#token-dialog")).to_be_visible()
        page.locator("#token").fill("a-long-secret-token")
        page.get_by_role("button", name="Continue").click()
        page.wait_for_selector("#heatmap tbody tr")
        expect(page.locator("#token-dialog")).to_be_hidden()


def test_code_is_copied_where_the_clipboard_api_is_absent(context, address):
    page = context.new_page()
    page.add_init_script("delete Navigator.prototype.clipboard")  # as on plain http
    open_page(page, address)
    button = page.locator('[data-copy="call-python"]')
    button.click()
    expect(button).to_have_text("Copied")
    expect(button).to_be_focused()
    code = page.locator("#call-python").text_content()
    other = context.new_page()
    other.goto(f"{address}/health")
    assert other.evaluate("navigator.clipboard.readText()") == code


def test_a_button_that_is_clicked_twice_gets_its_name_back(page):
    button = page.locator('[data-copy="call-python"]')
    button.click()
    expect(button).to_have_text("Copied")
    button.click()
    expect(button).to_have_text("Copy")


def test_many_vectors_are_clustered(page):
    # Their pairs are more than the arguments that a function may have in some browsers.
    labels = page.evaluate(
        """import('/static/clusters.js').then(({ clusters }) =>
            clusters(Array.from({ length: 400 }, () => [1, 0])))"""
    )
    assert labels == [0] * 400


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
        assert similarities[is_same].min() > similarities[~is_same].max() + 0.05, word
