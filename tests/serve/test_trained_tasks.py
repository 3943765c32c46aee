"""Trained task models of every kind, in the server and in the explorer."""

import httpx
import pytest

from elmo.serve.operations import Service
from elmo.serve.predictions import load_tasks
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.saved import open_task
from elmo.tasks.train import train_task
from tests.serve.conftest import running
from tests.tasks.tiny_tasks import TINY_TASKS

NAMES = ["ner", "sentiment", "nli", "srl", "coref", "squad"]
TEXT = "Ann Lee saw a bow. She left New York City."
PAIR = ["Who took a bow?", "Ann Lee took a bow. She sang in Rome, in 1907."]


@pytest.fixture(scope="module")
def trained(model, tmp_path_factory):
    """The folders of trained task models, by name."""
    folder = tmp_path_factory.mktemp("tasks")
    model.save(folder / "bilm")
    for tiny in TINY_TASKS:
        if tiny.name in NAMES:
            data = folder / tiny.file_name
            data.write_text(tiny.content, encoding="utf-8")
            task = find_task(tiny.name)
            n_epochs = 20 if tiny.name in ("ner", "srl", "coref") else 2
            sets = [*tiny.sets, f"train.n_epochs={n_epochs}"]
            config = read_config(task.defaults(), None, sets)
            train_task(task, config, data, data, folder / tiny.name, bilm=folder / "bilm")
    return {name: folder / name for name in NAMES}


@pytest.fixture(scope="module")
def address(model, trained):
    """The URL of a server that was started as `elmo serve --task` starts it."""
    service = Service(model, "tiny", None, load_tasks(list(trained.values()), model))
    with running(service, limits={"max_sentence_tokens": 100}) as (address, _):
        yield address


@pytest.fixture(scope="module")
def client(address):
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client


def predict(client, task, **body):
    answer = client.post(f"/api/predict/{task}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def expected(model, folder, lines, line_format="paragraphs"):
    """What `elmo predict` prints."""
    opened = open_task(folder, model)
    examples = list(opened.task.read_text(lines, line_format))
    found = opened.predict(examples)
    return [opened.task.to_mapping(e, p) for e, p in zip(examples, found, strict=True)]


def test_the_server_lists_the_kinds_of_its_tasks(client):
    assert client.get("/api/info").json()["tasks"] == {
        "coref": "clusters",
        "ner": "labels",
        "nli": "pair",
        "sentiment": "label",
        "squad": "answer",
        "srl": "frames",
    }


def test_a_tagger_labels_words_as_it_learned(client):
    (answer,) = predict(client, "ner", texts=[TEXT])["texts"]
    labeled = dict(zip(answer["tokens"], answer["labels"], strict=True))
    assert labeled["Ann"] == "B-PER"
    assert labeled["saw"] == "O"
    assert labeled["York"] == "I-LOC"


def test_a_text_is_classified_as_by_the_command(client, model, trained):
    texts = ["A lovely film.", "It is dull."]
    answers = predict(client, "sentiment", texts=texts)["texts"]
    found = expected(model, trained["sentiment"], texts)
    assert [answer["label"] for answer in answers] == [one["label"] for one in found]
    assert predict(client, "sentiment", texts=[""])["texts"][0]["label"] is None


def test_roles_are_those_of_the_command_with_positions_in_the_text(client, model, trained):
    text = "Ann gave him a bow. Birds sing."
    (answer,) = predict(client, "srl", texts=[text])["texts"]
    first, second = expected(model, trained["srl"], [text])
    assert len(answer["frames"]) == len(first["frames"]) + len(second["frames"]) > 0
    start = len(first["tokens"])
    predicates = [frame["predicate"] for frame in first["frames"]]
    predicates += [frame["predicate"] + start for frame in second["frames"]]
    assert [frame["predicate"] for frame in answer["frames"]] == predicates
    for frame, plain in zip(answer["frames"], first["frames"], strict=False):
        assert frame["arguments"] == plain["arguments"]


def test_clusters_are_those_of_the_command(client, model, trained):
    text = "Ann Lee ran. She fell."
    (answer,) = predict(client, "coref", texts=[text])["texts"]
    (found,) = expected(model, trained["coref"], [text])
    assert answer["clusters"] == found["clusters"]


@pytest.mark.parametrize("task", ["nli", "squad"])
def test_pairs_are_answered_as_by_the_command(client, model, trained, task):
    (answer,) = predict(client, task, pairs=[PAIR])["pairs"]
    (found,) = expected(model, trained[task], ["\t".join(PAIR)])
    found.pop("id", None)
    assert answer == found


def test_each_task_says_what_it_expects(client):
    for task, body, message in (
        ("nli", {"texts": [TEXT]}, "the body has texts, expected only pairs for task nli"),
        ("ner", {"pairs": [PAIR]}, "the body has pairs, expected only texts for task ner"),
        ("ner", {}, "the body has nothing, expected only texts for task ner"),
        ("squad", {"pairs": [["", "A dog ran."]]}, "pairs.0: the question is empty"),
        ("nli", {"pairs": [["One."]]}, "at least 2 items"),
    ):
        answer = client.post(f"/api/predict/{task}", json=body)
        assert answer.status_code == 422
        assert message in answer.json()["error"]


def test_a_long_document_is_refused(client):
    answer = client.post("/api/predict/coref", json={"texts": ["Ann ran. " * 40]})
    assert answer.status_code == 413
    assert "120 tokens in an example, expected at most 100" in answer.json()["error"]


def test_the_explorer_shows_the_predictions_of_every_task(address, client):
    explorer = pytest.importorskip("tests.serve.explorer_page", reason="playwright is absent")
    if explorer.CHROMIUM is None:
        pytest.skip("no Chromium on the PATH: explorer untested")
    with explorer.sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=explorer.CHROMIUM, args=explorer.FLAGS)
        page = browser.new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        expect, prediction = explorer.expect, page.locator("#prediction")
        page.locator("#task").select_option("ner")
        page.locator("#task-text").fill("Ann Lee saw a bow.")
        page.locator("#predict").click()
        expect(prediction.locator(".labeled")).to_have_text(["Ann LeePER"])
        for task in ("sentiment", "nli", "srl", "coref", "squad"):
            page.locator("#task").select_option(task)
            expect(prediction).to_be_empty()
            is_pair = task in ("nli", "squad")
            assert page.locator("#first-part").is_visible() == is_pair
            if is_pair:
                page.locator("#first-text").fill(PAIR[0])
            page.locator("#task-text").fill(PAIR[1])
            page.locator("#predict").click()
            expect(prediction).not_to_be_empty()
            if is_pair:
                (found,) = predict(client, task, pairs=[PAIR])["pairs"]
                expect(prediction.locator(".answer")).to_have_text(
                    found["label" if task == "nli" else "answer"]
                )
            elif task != "sentiment":
                (found,) = predict(client, task, texts=[PAIR[1]])["texts"]
                n_frames = len(found.get("frames", found.get("clusters")))
                expect(prediction.locator("p")).to_have_count(
                    max(1, n_frames) if task == "srl" else 1
                )
        page.locator("#task-text").fill(" ")
        page.locator("#predict").click()
        expect(page.locator("#task-error")).to_have_text("The text is empty.")
        assert problems == []
        browser.close()
