"""Every route: the results are those of the library, and errors are one clear line."""

import dataclasses
import io
import json
import mimetypes
import re

import httpx
import numpy as np
import pytest
from safetensors.numpy import load

from elmo.api import Elmo
from elmo.inference.occurrence import Occurrence
from elmo.search.build import build_index
from elmo.search.index import WordIndex
from elmo.search.neighbors import find_neighbors, open_index
from elmo.serve.config import Limits
from elmo.serve.operations import Service
from tests.conftest import ROOT
from tests.serve.conftest import SENTENCES, running

TEXTS = ["I took a bow. It was cold!", ["already", "tokens", "."], "naïve 東京 🙂"]
ASK = {"sentence": ["I", "took", "a", "bow", "."], "position": 3}


def refused(answer, status):
    """Check that a response has this status and only an error message, and return the message."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert list(body) == ["error"]
    assert body["error"]
    assert "\n" not in body["error"]
    return body["error"]


def each(texts, of_text, of_tokens):
    """The library's results for each text or token list."""
    return [of_text(text) if isinstance(text, str) else of_tokens(text) for text in texts]


@pytest.mark.parametrize("layers", ["average", "top", 1, [0.5, 0.25, -0.25]])
def test_vectors_are_those_of_the_library(client, model, layers):
    answer = client.post("/api/embed", json={"texts": TEXTS, "layers": layers}).json()
    for found, expected in zip(
        answer["texts"], each(TEXTS, model.embed, model.embed_tokens), strict=True
    ):
        assert found["tokens"] == expected.tokens
        assert found["sentences"] == [list(span) for span in expected.sentences]
        offsets = expected.offsets
        assert found["offsets"] == (None if offsets is None else [list(pair) for pair in offsets])
        np.testing.assert_allclose(found["vectors"], expected.vectors(layers), atol=1e-5)


def test_all_layers_come_one_after_the_other(client, model):
    answer = client.post("/api/embed", json={"texts": [TEXTS[0]], "layers": "all"}).json()
    expected = model.embed(TEXTS[0]).layers
    np.testing.assert_allclose(answer["texts"][0]["vectors"], expected, atol=1e-5)


def test_binary_vectors_are_the_same_numbers(client, model):
    ask = {"texts": TEXTS, "layers": "all"}
    expected = np.concatenate(
        [text.layers for text in each(TEXTS, model.embed, model.embed_tokens)], axis=1
    )
    npy = client.post("/api/embed", json=ask, headers={"Accept": "application/x-npy"})
    assert npy.headers["content-type"] == "application/x-npy"
    np.testing.assert_allclose(np.load(io.BytesIO(npy.content)), expected, atol=1e-5)

    accept = {"Accept": "text/html, application/vnd.safetensors;q=0.9, */*;q=0.1"}
    answer = client.post("/api/embed", json=ask, headers=accept).content
    np.testing.assert_allclose(load(answer)["vectors"], expected, atol=1e-5)
    header = json.loads(answer[8 : 8 + int.from_bytes(answer[:8], "little")])
    texts = json.loads(header["__metadata__"]["texts"])
    assert [text["tokens"] for text in texts] == [
        text.tokens for text in each(TEXTS, model.embed, model.embed_tokens)
    ]


def test_an_encoding_that_is_not_ours_is_refused(client):
    answer = client.post("/api/embed", json={"texts": TEXTS}, headers={"Accept": "image/png"})
    assert "application/x-npy" in refused(answer, 406)


def test_scores_are_those_of_the_library(client, model):
    answer = client.post("/api/score", json={"texts": TEXTS}).json()
    for found, expected in zip(
        answer["texts"], each(TEXTS, model.score, model.score_tokens), strict=True
    ):
        assert found["perplexity"]["forward"] == pytest.approx(
            expected.perplexity("forward"), rel=1e-4
        )
        for one, sentence in zip(found["sentences"], expected.sentences, strict=True):
            assert one["tokens"] == sentence.tokens
            assert one["is_known"] == sentence.is_known
            for reading in ("forward", "backward", "combined"):
                assert one["surprisals"][reading] == pytest.approx(
                    sentence.surprisal(reading).tolist(), abs=1e-4
                )


def test_substitutes_are_those_of_the_library(client, model):
    answer = client.post("/api/substitutes", json={**ASK, "k": 4}).json()
    expected = model.substitutes(ASK["sentence"], 3, 4)
    assert [found["word"] for found in answer["substitutes"]] == [s.word for s in expected]
    for found, substitute in zip(answer["substitutes"], expected, strict=True):
        assert found["log_probs"] == pytest.approx(dict(substitute.log_probs), abs=1e-4)


@pytest.mark.parametrize("any_word", [False, True])
@pytest.mark.parametrize("layers", ["top", [0.3, 0.3, 0.4]])
def test_neighbors_are_those_of_the_library(client, model, service, any_word, layers):
    ask = {"sentence": "I took a bow.", "position": 3, "k": 3}
    answer = client.post(
        "/api/neighbors", json={**ask, "any_word": any_word, "layers": layers}
    ).json()
    assert answer.pop("tokens") == ASK["sentence"]
    occurrence = Occurrence(ASK["sentence"], 3)
    expected = find_neighbors(
        model, service.index, occurrence, 3, layers=layers, any_word=any_word
    ).to_mapping()
    for kind in ("in_context", "without_context"):
        assert len(answer[kind]) == len(expected[kind])
        for one, two in zip(answer[kind], expected[kind], strict=True):
            assert one["similarity"] == pytest.approx(two["similarity"], abs=1e-4)


def test_without_a_text_neighbors_are_of_the_packages_own_sentences(model):
    index = open_index(model)
    with running(Service(model, "tiny", index)) as (address, _):
        assert httpx.get(f"{address}/api/info").json()["indexed_tokens"] == len(index)
        for any_word in (False, True):
            ask = {"sentence": "They took another bow.", "position": 3, "k": 30}
            answer = httpx.post(
                f"{address}/api/neighbors", json={**ask, "any_word": any_word}, timeout=30
            ).json()
            found = [" ".join(near["tokens"]) for near in answer["in_context"]]
            assert ("I took a bow ." in found) or any_word
            assert found
            assert answer["without_context"]


def test_layers_that_the_graph_of_a_large_text_does_not_link_are_refused(model, tmp_path):
    build_index(model, SENTENCES, tmp_path, graph_from=0)
    index = WordIndex(tmp_path, model, max_compared=0)
    with running(Service(model, "tiny", index)) as (address, _):
        ask = {**ASK, "any_word": True}
        assert len(httpx.post(f"{address}/api/neighbors", json=ask).json()["in_context"]) > 0
        answer = httpx.post(f"{address}/api/neighbors", json={**ask, "layers": "average"})
    assert "the mix of the graph" in refused(answer, 422)


def test_a_task_labels_every_word_of_a_page(client):
    page = "Alan went to Paris. he liked Rome!"
    answer = client.post("/api/predict/ner", json={"texts": [page]}).json()["texts"][0]
    pairs = dict(zip(answer["tokens"], answer["labels"], strict=True))
    assert pairs["Paris"] == pairs["Rome"] == "B-NAME"
    assert pairs["he"] == "O"
    assert [page[i:j] for i, j in answer["offsets"]] == answer["tokens"]


def test_empty_texts_have_empty_answers(client):
    texts = ["", "  ", []]
    vectors = client.post("/api/embed", json={"texts": texts}).json()["texts"]
    assert [text["vectors"] for text in vectors] == [[], [], []]
    scored = client.post("/api/score", json={"texts": texts}).json()["texts"]
    assert [len(text["sentences"]) for text in scored] == [0, 0, 1]
    assert client.post("/api/predict/ner", json={"texts": texts}).json()["texts"][0]["labels"] == []
    npy = client.post("/api/embed", json={"texts": [""]}, headers={"Accept": "application/x-npy"})
    assert np.load(io.BytesIO(npy.content)).shape == (0, 16)


def test_info_shows_what_is_served(client, service):
    told = client.get("/api/info").json()
    assert told["layers"] == 3
    assert told["output_dim"] == 16
    assert told["words"] == len(service.elmo.model.vocabulary)
    assert told["indexed_tokens"] == sum(map(len, SENTENCES))
    assert told["tasks"] == {"ner": "labels"}
    assert told["limits"]["max_tokens"] == 300


def test_metrics_count_requests_by_route(client):
    client.get("/health")
    client.post("/api/predict/nothing", json={"texts": ["a"]})
    told = client.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain")
    assert 'elmo_requests_total{path="/health",status="200"}' in told.text
    assert 'elmo_requests_total{path="/api/predict/{task}",status="404"}' in told.text
    assert "elmo_batch_tokens_bucket" in told.text
    assert "process_resident_memory_bytes" in told.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/embed", {}),
        ("/api/embed", {"texts": []}),
        ("/api/embed", {"texts": "a text"}),
        ("/api/embed", {"texts": [3]}),
        ("/api/embed", {"texts": [["a", None]]}),
        ("/api/embed", {"texts": ["a"], "layers": "none"}),
        ("/api/embed", {"texts": ["a"], "layers": 3}),
        ("/api/embed", {"texts": ["a"], "layers": [1]}),
        ("/api/embed", {"texts": ["a"], "layers": [1e300, 0, 0]}),
        ("/api/embed", {"texts": ["a"], "layers": True}),
        ("/api/embed", {"texts": ["a"], "unknown": 1}),
        ("/api/embed", {"texts": ["half \ud800"]}),
        ("/api/embed", {"texts": [["half", "\udfff"]]}),
        ("/api/embed", [1, 2]),
        ("/api/embed", None),
        ("/api/score", {"texts": {"a": 1}}),
        ("/api/substitutes", {**ASK, "position": 5}),
        ("/api/substitutes", {**ASK, "position": -1}),
        ("/api/substitutes", {**ASK, "position": 10**400}),
        ("/api/substitutes", {**ASK, "position": 1.5}),
        ("/api/substitutes", {**ASK, "position": "3"}),
        ("/api/substitutes", {**ASK, "k": 0}),
        ("/api/substitutes", {**ASK, "k": 10**9}),
        ("/api/substitutes", {"sentence": "", "position": 0}),
        ("/api/neighbors", {**ASK, "layers": "all"}),
        ("/api/neighbors", {**ASK, "layers": [1, 2]}),
        ("/api/neighbors", {**ASK, "layers": 77}),
        ("/api/neighbors", {**ASK, "any_word": "yes"}),
    ],
)
def test_a_body_that_is_not_as_described_is_refused(client, path, body):
    content = json.dumps(body)
    headers = {"Content-Type": "application/json"}
    refused(client.post(path, content=content, headers=headers), 422)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"texts": ["\xff\xfe"]}',
        b'{"texts": ["a"], "layers": [NaN, 0, 0]}',
        b'{"texts": ["a"], "layers": [Infinity, 0, 0]}',
        b'{"texts": ["a"], "layers": [1e999, 0, 0]}',
        b"[" * 9_000,
        b'{"texts":' * 1_500,
        b"\x00" * 100,
        b'"' + b"9" * 5_000,
        b'{"texts": ["a"], "layers": ' + b"9" * 5_000 + b"}",
    ],
)
@pytest.mark.parametrize(
    "path", ["/api/embed", "/api/score", "/api/substitutes", "/api/neighbors", "/api/predict/ner"]
)
def test_bytes_that_are_no_request_are_refused(client, path, content):
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    refused(answer, answer.status_code)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/static/nothing.js", 404),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/..%2Fapp.py", 404),
        ("GET", "/static/%2e%2e/app.py", 404),
        ("GET", "/static//etc/passwd", 404),
        ("GET", "/api/embed", 405),
        ("DELETE", "/api/embed", 405),
        ("POST", "/api/predict/..%2F..%2Fetc", 404),
    ],
)
def test_addresses_that_are_not_served_are_refused(address, method, path, status):
    with httpx.Client() as client:
        answer = client.request(method, address + path, json={"texts": ["a"]})
    refused(answer, status)


def test_a_model_without_head_index_or_task_says_what_it_lacks(bilm):
    from elmo.models.model_folder import Model

    with running(Service(Elmo(Model(bilm)), "bare")) as (address, _):
        assert httpx.get(f"{address}/api/info").json()["words"] is None
        assert httpx.post(f"{address}/api/embed", json={"texts": ["a"]}).status_code == 200
        for path, body in {
            "score": {"texts": ["a"]},
            "substitutes": ASK,
            "neighbors": ASK,
            "predict/ner": {"texts": ["a"]},
        }.items():
            message = refused(httpx.post(f"{address}/api/{path}", json=body), 404)
            assert message.startswith(f"{path} is not available")


def test_every_answer_keeps_the_page_to_itself(client):
    for path in ("/", "/docs", "/api/info", "/static/explorer.js", "/nowhere"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        # Swagger UI sets styles of its own elements; scripts are never inline.
        assert "unsafe" not in policy.replace(
            "style-src 'self' 'unsafe-inline'", "", path == "/docs"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_the_page_names_nothing_outside_this_server(client):
    for path in ("/", "/docs"):
        page = client.get(path).text
        assert "http://" not in page.replace("http://www.w3.org", "")
        assert "https://" not in page
        assert " style=" not in page
        assert "<script>" not in page


def test_files_have_their_types_whatever_the_registry_of_windows_says(service):
    expected = {
        "/": "text/html; charset=utf-8",
        "/docs": "text/html; charset=utf-8",
        "/static/explorer.js": "text/javascript; charset=utf-8",
        "/static/style.css": "text/css; charset=utf-8",
        "/static/icon.svg": "image/svg+xml",
        "/static/swagger-ui/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    }
    try:
        for extension in (".html", ".js", ".css", ".svg"):
            mimetypes.add_type("text/plain", extension)
        with running(service) as (address, _):
            found = {path: httpx.get(address + path).headers["content-type"] for path in expected}
    finally:
        mimetypes.init()
    assert found == expected


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/docs",
        "/openapi.json",
        "/static/explorer.js",
        "/static/swagger-ui/swagger-ui.css",
        "/health",
        "/ready",
        "/metrics",
    ],
)
def test_head_answers_as_get_without_the_body(client, path):
    head, get = client.head(path), client.get(path)
    assert (head.status_code, get.status_code) == (200, 200)
    assert head.content == b""
    assert head.headers["content-type"] == get.headers["content-type"]
    methods = client.get("/openapi.json").json()["paths"].get(path, {"get": {}})
    assert list(methods) == ["get"]


@pytest.mark.parametrize(
    ("content_type", "found"),
    [
        ("text/plain", "Content-Type is text/plain"),
        ("application/x-www-form-urlencoded", "Content-Type is application/x-www-form-urlencoded"),
        ("application/jsonl; charset=utf-8", "Content-Type is application/jsonl; charset=utf-8"),
        (None, "no Content-Type"),
    ],
)
def test_a_body_that_is_not_declared_as_json_is_refused(client, content_type, found):
    headers = {} if content_type is None else {"Content-Type": content_type}
    message = f"{found}, expected application/json"
    answer = client.post("/api/embed", content=b'{"texts": ["a"]}', headers=headers)
    assert refused(answer, 415) == message
    body = b'{"input": "a", "model": "tiny"}'
    answer = client.post("/v1/embeddings", content=body, headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"]["message"] == message


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/ld+json"]
)
def test_every_type_of_json_is_accepted(client, content_type):
    headers = {"Content-Type": content_type}
    answer = client.post("/api/embed", content=b'{"texts": ["a"]}', headers=headers)
    assert answer.status_code == 200


def test_the_python_of_the_docs_runs(address):
    page = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks:
        exec(block.replace("http://127.0.0.1:8000", address).replace("english:", "tiny:"), names)
    assert names["vectors"].shape == (5, 16)
    assert len(names["vector"]) == 16


def test_the_docs_name_every_limit_and_address(client):
    page = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    for field in dataclasses.fields(Limits):
        assert field.name in page
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page


def test_the_description_covers_every_address(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        "/api/embed",
        "/api/neighbors",
        "/api/score",
        "/api/substitutes",
        "/api/predict/{task}",
        "/api/info",
        "/v1/embeddings",
        "/v1/models",
        "/v1/models/{model}",
        "/embed_all",
        "/health",
        "/ready",
        "/metrics",
    }
