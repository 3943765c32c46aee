"""The explorer while it loads, waits and fails; its history, and long texts."""

import re
from contextlib import contextmanager

import numpy as np
import pytest

from elmo.serve.operations import Service
from tests.serve.conftest import SENTENCES, Capitals, running
from tests.serve.explorer_page import BOWS, cells, expect, open_page, slide

pytestmark = pytest.mark.needs("browser")


@contextmanager
def paused(page, pattern):
    """Hold matching requests until the end of the block."""
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
    late = []
    page.route("**/api/embed", lambda route: late.append(route), times=1)
    with page.expect_request("**/api/embed"):
        page.locator("#text").fill("One ship here .\nAnother ship there .")
    page.get_by_role("button", name="bank", exact=True).click()
    expect(page.locator("#compared-word")).to_have_value("bank")
    late[0].continue_()
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


def test_a_prediction_of_an_earlier_task_is_not_shown(context, model):
    tasks = {"first": Capitals(), "second": Capitals()}
    with running(Service(model, "tiny", None, tasks)) as (address, _):
        page = context.new_page()
        open_page(page, address)
        page.locator("#task-text").fill("Alan went to Paris.")
        late = []
        page.route("**/api/predict/first", lambda route: late.append(route))
        with page.expect_request("**/api/predict/first"):
            page.locator("#predict").click()
        expect(page.locator("#prediction")).to_have_attribute("aria-busy", "true")
        page.locator("#task").select_option("second")
        expect(page.locator("#prediction")).to_have_attribute("aria-busy", "false")
        with page.expect_response("**/api/predict/first"):
            late[0].continue_()
        page.wait_for_timeout(300)
        expect(page.locator("#prediction")).to_be_empty()
        page.locator("#predict").click()
        expect(page.locator("#prediction .labeled")).to_have_count(2)


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
        page.wait_for_timeout(300)
    assert page.evaluate("history.length") == length + 1
    page.go_back()
    expect(page.locator("#weight-0-value")).to_have_text("0.00")


def test_a_moving_slider_changes_the_address_when_it_stops(page):
    n_changes = page.evaluate(
        """async () => {
            let n = 0;
            for (const name of ["pushState", "replaceState"]) {
                const change = history[name].bind(history);
                history[name] = (...given) => (n++, change(...given));
            }
            const slider = document.getElementById("weight-0");
            for (let k = 1; k <= 150; k++) {
                slider.value = k / 200;
                slider.dispatchEvent(new Event("input"));
            }
            return n;
        }"""
    )
    assert n_changes == 0
    expect(page).to_have_url(re.compile("s=0.75%2C0%2C1"))
    slide(page, "weight-0", 0.25)
    page.locator('[data-copy="link"]').click()
    assert "s=0.25%2C0%2C1" in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("is_sent", [False, True])
def test_going_back_drops_the_text_that_is_being_typed(page, is_sent):
    page.locator(".layer").nth(1).click()
    with paused(page, "**/api/score") as waiting:
        page.locator("#text").fill("One ship here .\nAnother ship there .")
        while is_sent and not waiting:
            page.wait_for_timeout(50)
        page.go_back()
        expect(page.locator("body")).to_have_attribute("data-status", "ready")
        assert page.locator("#text").input_value() == "\n".join(BOWS)
    page.wait_for_timeout(800)
    expect(page.locator("body")).to_have_attribute("data-status", "ready")
    assert page.locator("#compared-word").input_value() == "bow"
    assert "ship+here" not in page.url


def test_going_back_after_an_error_shows_results_without_it(context, address):
    page = context.new_page()
    open_page(page, address)
    page.locator(".layer").nth(1).click()
    page.locator("#text").fill("word " * 101)
    expect(page.locator("#message")).to_contain_text("max_sentence_tokens")
    page.go_back()
    expect(page.locator("#message")).to_be_empty()
    assert page.locator("#results").evaluate("results => !results.inert")


def test_text_typed_while_the_page_loads_is_kept(context, address):
    page = context.new_page()
    with paused(page, "**/api/info") as waiting:
        page.goto(address)
        while not waiting:
            page.wait_for_timeout(50)
        page.locator("#text").fill("One ship here .\nAnother ship there .")
    expect(page.locator("#compared-word")).to_have_value("ship")
    assert page.locator("#text").input_value() == "One ship here .\nAnother ship there ."


def test_a_refusal_is_reported_on_the_page(context, address):
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
