"""A real server on a free local port, with a tiny model, a tiny index and a fake task model."""

import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("fastapi", reason="the server's packages are absent: install elmo-torch[serve]")

import httpx
import torch

from elmo.api import Elmo
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head
from elmo.search.build import temporary_index
from elmo.serve.config import Limits, ServeConfig
from elmo.serve.operations import Service
from elmo.serve.run import build_server, listen
from elmo.text.vocabulary import Vocabulary
from tests.conftest import CORPUS, TINY_OPTIONS
from tests.random_models import build_bilm, random_weights

SENTENCES = [line.split() for line in CORPUS.splitlines() if "Donau" not in line]


class Capitals:
    """A task model: capitalized words are names. Can be blocked, and records its input."""

    name, kind = "ner", "labels"

    def __init__(self):
        self.may_continue = threading.Event()
        self.may_continue.set()
        self.is_running = threading.Event()
        self.labeled = []

    def read_text(self, text):
        return [sentence.tokens for sentence in text]

    def length(self, tokens):
        return len(tokens)

    def predict(self, sentences):
        self.is_running.set()
        assert self.may_continue.wait(20)
        self.labeled += [list(tokens) for tokens in sentences]
        return [
            {"labels": ["B-NAME" if t[:1].isupper() else "O" for t in tokens]}
            for tokens in sentences
        ]


@contextmanager
def running(service, token=None, **settings):
    """A server in a thread; yields its URL and the uvicorn server."""
    limits = settings.pop("limits", {})
    config = ServeConfig(port=0, limits=Limits(**limits), **settings)
    listening = listen(config.host, config.port)
    server = build_server(service, config, token)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", server
    finally:
        server.should_exit = True
        thread.join()


def make_elmo(seed=1):
    torch.manual_seed(seed)
    vocabulary = Vocabulary.of_words(sorted(set(CORPUS.split()) - {"arrow"}))
    bilm = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed))
    return Elmo(Model(bilm, build_head("full", len(vocabulary), 8).eval(), vocabulary))


@pytest.fixture(scope="session")
def model():
    return make_elmo()


@pytest.fixture
def task():
    return Capitals()


@pytest.fixture(scope="session")
def service(model):
    """A model with an index and a task model."""
    index = temporary_index(model, SENTENCES)
    return Service(model, "tiny", index, {"ner": Capitals()})


@pytest.fixture(scope="session")
def address(service):
    """The URL of a server with small limits."""
    limits = {"max_bytes": 20_000, "max_tokens": 300, "max_sentences": 40, "batch_tokens": 64}
    limits["max_sentence_tokens"] = 100
    with running(service, limits=limits) as (address, _):
        yield address


@pytest.fixture(scope="session")
def client(address):
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    from tests.serve import explorer_page

    with explorer_page.sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=explorer_page.CHROMIUM, args=explorer_page.FLAGS
        )
        yield browser
        browser.close()


@pytest.fixture
def context(browser):
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        context.set_default_timeout(20_000)
        yield context


@pytest.fixture
def page(context, address):
    """The explorer with its three bows; any logged error or external request fails the test."""
    from tests.serve.explorer_page import open_page

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
