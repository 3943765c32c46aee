"""A tagger that was really trained, asked through the server and shown in the explorer."""

import httpx
import pytest

from elmo.serve.operations import Service, load_tasks
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.train import train_task
from tests.serve.conftest import running
from tests.tasks.tiny_tasks import TINY_TASKS


@pytest.fixture(scope="module")
def tagger_address(model, tmp_path_factory):
    """Where a server answers that was started as `elmo serve --task` starts it."""
    folder = tmp_path_factory.mktemp("tagger")
    model.save(folder / "bilm")
    tiny = TINY_TASKS[0]
    (folder / "train.conll").write_text(tiny.content, encoding="utf-8")
    task = find_task(tiny.name)
    config = read_config(task.defaults(), None, [*tiny.sets, "train.n_epochs=20"])
    data = folder / "train.conll"
    train_task(task, config, data, data, folder / "run", bilm=folder / "bilm")
    service = Service(model, "tiny", None, load_tasks([folder / "run"], model))
    with running(service) as (address, _):
        yield address


def test_the_server_labels_words_as_the_tagger_learned_them(tagger_address):
    with httpx.Client(base_url=tagger_address, timeout=30) as client:
        assert client.get("/api/info").json()["tasks"] == ["ner"]
        text = "Ann Lee saw a bow. He left New York City."
        answer = client.post("/api/predict/ner", json={"texts": [text]}).json()["texts"][0]
    labeled = dict(zip(answer["tokens"], answer["labels"], strict=True))
    assert labeled["Ann"] == "B-PER"
    assert labeled["saw"] == "O"
    assert labeled["York"] == "I-LOC"


def test_the_explorer_shows_what_the_tagger_found(tagger_address):
    explorer = pytest.importorskip("tests.serve.test_explorer", reason="playwright is absent")
    if explorer.CHROMIUM is None:
        pytest.skip("no Chromium on the PATH: explorer untested")
    with explorer.sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=explorer.CHROMIUM, args=explorer.FLAGS)
        page = browser.new_page()
        page.goto(tagger_address)
        page.locator("#tagger-text").fill("Ann Lee saw a bow.")
        page.locator("#tag").click()
        explorer.expect(page.locator("#tagged .labeled")).to_have_text(["Ann LeePER"])
        browser.close()
