"""What an operator relies on: readiness, request IDs, logs, warnings, CORS."""

import io
import json
import logging
import re
import select
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from elmo.serve.config import ServeConfig, read_config
from elmo.serve.metrics import REQUEST_LOG, log_as_json
from elmo.serve.operations import Service
from elmo.serve.run import warn_if_open
from tests.conftest import ROOT
from tests.serve.conftest import running
from tests.serve.test_limits import TOKEN, in_flight, wait_until


def test_ready_answers_503_while_the_server_drains(service):
    with running(service, TOKEN, drain_seconds=1.0) as (address, server):
        assert httpx.get(f"{address}/ready").json() == {"status": "ready"}
        server.handle_exit(signal.SIGTERM, None)
        answer = httpx.get(f"{address}/ready")
        assert answer.status_code == 503
        assert answer.json() == {"error": "the server is shutting down"}
        assert httpx.get(f"{address}/health").status_code == 200
        headers = {"Authorization": f"Bearer {TOKEN}"}
        body = {"texts": ["Still served."]}
        assert httpx.post(f"{address}/api/embed", json=body, headers=headers).status_code == 200
        wait_until(lambda: server.should_exit)


def test_a_second_signal_ends_draining(service):
    with running(service, drain_seconds=600.0) as (_, server):
        server.handle_exit(signal.SIGTERM, None)
        assert not server.should_exit
        server.handle_exit(signal.SIGINT, None)
        assert server.should_exit


def test_every_response_has_a_request_id_and_keeps_a_given_one(client):
    given = {"X-Request-Id": "trace-1234"}
    assert client.get("/health", headers=given).headers["x-request-id"] == "trace-1234"
    assert client.get("/nowhere", headers=given).headers["x-request-id"] == "trace-1234"
    ids = {client.get("/health").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    for bad in ("x" * 129, "two words", '"quoted"', ""):
        assert client.get("/health", headers={"X-Request-Id": bad}).headers["x-request-id"] != bad


@pytest.fixture
def logged():
    """The JSON logs; the loggers are restored afterwards."""
    names = ("elmo", REQUEST_LOG.name, "uvicorn")
    before = [
        (log, log.handlers, log.level, log.propagate) for log in map(logging.getLogger, names)
    ]
    stream = io.StringIO()
    log_as_json(stream)
    yield stream
    for log, handlers, level, propagate in before:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


def test_requests_are_logged_as_json_without_what_they_ask_for(client, logged):
    client.post("/api/predict/secret-task", json={"texts": ["a secret text"]})
    client.get("/health", headers={"X-Request-Id": "trace-5"})
    wait_until(lambda: "trace-5" in logged.getvalue())
    predict, health = (json.loads(line) for line in logged.getvalue().splitlines()[-2:])
    assert predict["path"] == "/api/predict/{task}"
    assert (predict["method"], predict["status"]) == ("POST", 404)
    assert health["request_id"] == "trace-5"
    assert health["milliseconds"] >= 0
    assert health["time"].endswith("Z")
    assert "secret" not in logged.getvalue()


def test_errors_are_logged_as_json_with_their_traceback(logged):
    try:
        raise ValueError("unexpected")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("a failure")
    entry = json.loads(logged.getvalue())
    assert (entry["level"], entry["message"]) == ("error", "a failure")
    assert "ValueError: unexpected" in entry["traceback"]


def test_the_container_accepts_the_names_that_its_health_check_and_prometheus_use():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    command = compose["services"]["elmo"]["command"]
    setting = command[command.index("--set") + 1]
    scraped = yaml.safe_load((ROOT / "tools" / "docker" / "prometheus.yml").read_text())
    (target,) = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    allowed = read_config(None, (setting,), None, None).allow_hosts
    assert set(allowed) == {"localhost", "127.0.0.1", target.removesuffix(":8000")}
    checked = re.findall(r"http://([^:]+):8000/health", (ROOT / "Dockerfile").read_text())
    assert set(checked) <= set(allowed)


@pytest.mark.parametrize(
    ("host", "token", "warns"),
    [
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("192.168.1.5", None, True),
        ("0.0.0.0", TOKEN, False),
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("::1", None, False),
    ],
)
def test_a_server_that_others_can_reach_without_a_token_warns(caplog, host, token, warns):
    warn_if_open(ServeConfig(host=host), token)
    assert ("without a token" in caplog.text) is warns


def test_a_preflight_needs_no_token_and_errors_can_be_read_by_allowed_origins(service):
    origin = {"Origin": "https://example.org"}
    asks = {"Access-Control-Request-Method": "POST"}
    asks["Access-Control-Request-Headers"] = "authorization,content-type"
    with running(service, TOKEN, allow_origins=("https://example.org",)) as (address, _):
        for path in ("/api/embed", "/v1/embeddings"):
            preflight = httpx.options(address + path, headers={**origin, **asks})
            assert preflight.status_code == 200
            assert preflight.headers["access-control-allow-origin"] == "https://example.org"
            assert "authorization" in preflight.headers["access-control-allow-headers"]
        other = {**asks, "Origin": "https://evil.example"}
        answer = httpx.options(f"{address}/api/embed", headers=other)
        assert "access-control-allow-origin" not in answer.headers
        refused = httpx.post(f"{address}/api/embed", json={"texts": ["a"]}, headers=origin)
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://example.org"
        token = {**origin, "Authorization": f"Bearer {TOKEN}"}
        served = httpx.post(f"{address}/api/embed", json={"texts": ["a"]}, headers=token)
        assert served.status_code == 200
        assert served.headers["access-control-allow-origin"] == "https://example.org"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/score", {"texts": ["I took a bow."]}),
        ("/api/substitutes", {"sentence": "I took a bow.", "position": 3}),
        ("/api/embed", {"texts": ["I took a bow."]}),
        ("/v1/embeddings", {"input": "I took a bow.", "model": "tiny"}),
    ],
)
def test_requests_of_many_clients_share_batches(model, task, path, body):
    task.may_continue.clear()
    service = Service(model, "tiny", None, {"ner": task})
    with running(service) as (address, _), ThreadPoolExecutor(9) as clients:
        first = clients.submit(httpx.post, f"{address}/api/predict/ner", json={"texts": ["Wait."]})
        assert task.is_running.wait(20)
        others = [clients.submit(httpx.post, address + path, json=body) for _ in range(8)]
        wait_until(lambda: in_flight(address) >= 9)
        task.may_continue.set()
        assert {answer.result().status_code for answer in [first, *others]} == {200}
        metrics = httpx.get(f"{address}/metrics").text
    assert "elmo_batch_requests_sum 9.0" in metrics
    # The first request and a few batches: some requests may be split into sentences too late.
    n_batches = re.search(r"elmo_batch_requests_count ([\d.]+)", metrics)
    assert float(n_batches[1]) < 9


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_answers_while_a_request_is_unfinished(model, task, path):
    service = Service(model, "tiny", tasks={"ner": task})
    task.may_continue.clear()
    with running(service) as (address, _), ThreadPoolExecutor() as pool:
        body = {"texts": ["Ann took a bow."]}
        pending = pool.submit(httpx.post, f"{address}/api/predict/ner", json=body, timeout=30)
        assert task.is_running.wait(20)
        assert httpx.get(f"{address}{path}", timeout=20).status_code == 200
        assert not pending.done()
        task.may_continue.set()
        assert pending.result().status_code == 200


def test_health_answers_while_long_texts_are_embedded(model):
    words = [f"word{k}" for k in range(19)]
    body = json.dumps({"texts": [" ".join(words)] * 1_000, "layers": "all"}).encode()
    fields = ["Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    head = "\r\n".join(["POST /api/embed HTTP/1.1", *fields, "", ""])
    with running(Service(model, "tiny")) as (address, _), ExitStack() as stack:
        port = int(address.rpartition(":")[2])
        sent = []
        for _ in range(8):
            sent.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            sent[-1].sendall(head.encode() + body)
        for path in ("/health", "/ready"):
            assert httpx.get(f"{address}{path}", timeout=60).status_code == 200
        answered, _, _ = select.select(sent, [], [], 0)
        assert len(answered) < 8
        assert all(one.recv(12) == b"HTTP/1.1 200" for one in sent)
