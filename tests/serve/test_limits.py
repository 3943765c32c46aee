"""Tokens, hosts and origins, limits, timeouts and shutdown."""

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from pydantic import ValidationError
from starlette.responses import StreamingResponse

from elmo.cli.main import main
from elmo.errors import ConfigError
from elmo.serve.codec import (
    BLOCK_VALUES,
    JSON,
    EmbeddedTexts,
    encode,
    encode_json,
    split_texts,
)
from elmo.serve.config import Limits, ServeConfig, read_config
from elmo.serve.middleware import RequestError
from elmo.serve.operations import Service
from elmo.serve.run import listen, read_token
from elmo.serve.schemas import EmbedBody
from elmo.text.tokenizer import Sentence
from tests.serve.conftest import Capitals, running
from tests.serve.test_api import refused

TOKEN = "a-long-secret-token"
HALF_HEADER = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Fields: "


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({"texts": ["word " * 5000]}, "max_bytes"),
        ({"texts": [["word"] * 99] * 4}, "max_tokens"),
        ({"texts": [["word"] * 101]}, "max_sentence_tokens"),
        ({"texts": [["a"]] * 41}, "max_sentences"),
        ({"texts": ["Yes. No. " * 25]}, "max_sentences"),
    ],
)
def test_too_much_is_refused_by_the_name_of_the_limit(client, body, limit):
    assert f"({limit})" in refused(client.post("/api/embed", json=body), 413)
    assert f"({limit})" in refused(client.post("/api/score", json=body), 413)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"texts": [""] * 250_000}, 413, "250,000 items in texts"),
        ({"texts": [3] * 300_000}, 413, "300,000 items in texts"),
        ({"texts": [["a"] * 1_500] * 120}, 413, "max_tokens"),
        ({"texts": [[1] * 400_000]}, 413, "400,000 tokens in a sentence"),
        ({"sentence": [1] * 400_000, "position": 0}, 413, "400,000 tokens in a sentence"),
        ({"texts": ["a"], "layers": [0] * 300_000}, 413, "300,000 items in layers"),
        ({str(k): 0 for k in range(90_000)}, 422, "90,000 keys in the body"),
        ([""] * 250_000, 422, "body"),
    ],
)
def test_counts_are_checked_before_a_body_is_validated(default_address, body, status, message):
    content = json.dumps(body, separators=(",", ":"))
    answer = httpx.post(
        f"{default_address}/api/embed",
        content=content,
        headers={"Content-Type": "application/json"},
    )
    assert message in refused(answer, status)
    assert len(answer.content) < 500


def test_validation_stops_at_the_first_wrong_item():
    for body in ({"texts": [3] * 1_000}, {"texts": [["a", 3, 3, 3] * 100]}):
        with pytest.raises(ValidationError) as error:
            EmbedBody.model_validate(body)
        assert error.value.error_count() <= 2


def test_a_text_with_too_many_sentences_is_not_split_to_its_end():
    texts = ["Yes. No. " * 10, "It is late. " * 5_000]
    limits = Limits(max_sentences=100)
    with pytest.raises(RequestError, match=r"101 or more sentences"):
        split_texts(texts, limits)


def test_json_is_written_in_blocks():
    values = np.random.default_rng(0).normal(size=(2, 30, 1_000)).astype(np.float32)
    blocks = list(encode_json(values))
    assert max(len(block) for block in blocks) < 20 * BLOCK_VALUES
    assert len(blocks) > 60
    np.testing.assert_allclose(json.loads("".join(blocks)), values, atol=1e-6)
    for shape in ((0, 4), (2, 0, 4), (3,), (1, 1)):
        assert json.loads("".join(encode_json(np.zeros(shape)))) == np.zeros(shape).tolist()


def test_long_json_is_sent_in_chunks(service):
    texts = [["word"] * 100] * 20
    with running(service) as (address, _):
        whole = httpx.post(f"{address}/api/embed", json={"texts": texts, "layers": "all"})
        assert "content-length" in whole.headers
    vectors = np.zeros((3, 4_000, 100), np.float32)
    embedded = EmbeddedTexts([[Sentence(["word"] * 4_000, [])]], vectors)
    response = encode(embedded, JSON, has_layers=True)
    assert isinstance(response, StreamingResponse)

    async def read():
        return [chunk async for chunk in response.body_iterator]

    chunks = asyncio.run(read())
    assert len(chunks) > 5
    assert np.shape(json.loads("".join(chunks))["texts"][0]["vectors"]) == vectors.shape


def test_900_kB_of_apostrophes_are_refused_by_their_number_of_tokens(default_address):
    for text in ("'" * 900_000, '"' * 450_000, "“" * 300_000, ".\n" * 300_000):
        answer = httpx.post(f"{default_address}/api/embed", json={"texts": [text]}, timeout=60)
        assert "expected at most" in refused(answer, 413)


@pytest.fixture(scope="module")
def default_address(service):
    """The URL of a server with its default limits."""
    with running(service) as (address, _):
        yield address


def test_a_sentence_too_long_to_look_at_is_refused(client):
    body = {"sentence": ["word"] * 101, "position": 0}
    assert "max_sentence_tokens" in refused(client.post("/api/substitutes", json=body), 413)


def test_an_answer_too_large_is_refused(service):
    with running(service, limits={"max_vector_values": 100}) as (address, _):
        answer = httpx.post(
            f"{address}/api/embed", json={"texts": ["one two three four five six sev"]}
        )
        assert "max_vector_values" in refused(answer, 413)


def test_a_body_without_a_length_is_cut_off_at_the_limit(client):
    def endless():
        for _ in range(1000):
            yield b" " * 1000

    headers = {"Content-Type": "application/json"}
    assert "max_bytes" in refused(
        client.post("/api/embed", content=endless(), headers=headers), 413
    )


def test_a_token_is_asked_for_but_not_of_the_page(service):
    with running(service, TOKEN) as (address, _):
        for path in ("/", "/docs", "/health", "/openapi.json", "/static/style.css"):
            assert httpx.get(address + path).status_code == 200
        for headers in (
            {},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer wrong-token"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": f"Bearer {TOKEN}x"},
        ):
            for path in ("/api/info", "/metrics"):
                answer = httpx.get(address + path, headers=headers)
                assert TOKEN not in refused(answer, 401)
                assert answer.headers["www-authenticate"] == "Bearer"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        body = {"texts": ["a"]}
        assert httpx.post(f"{address}/api/embed", json=body).status_code == 401
        assert httpx.post(f"{address}/api/embed", json=body, headers=headers).status_code == 200


def test_another_sites_page_may_ask_only_if_it_was_named(service, address):
    origin = {"Origin": "https://example.org"}
    preflight = {**origin, "Access-Control-Request-Method": "POST"}
    answer = httpx.options(f"{address}/api/embed", headers=preflight)
    assert "access-control-allow-origin" not in answer.headers
    with running(service, allow_origins=("https://example.org",)) as (open_address, _):
        answer = httpx.options(f"{open_address}/api/embed", headers=preflight)
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        other = {**preflight, "Origin": "https://evil.example"}
        answer = httpx.options(f"{open_address}/api/embed", headers=other)
        assert "access-control-allow-origin" not in answer.headers


def test_a_name_that_is_not_this_machines_is_refused(address):
    port = address.rsplit(":", 1)[1]
    for host in ("evil.example", f"evil.example:{port}", "", "localhost:80:80", "localhost.evil"):
        refused(httpx.get(f"{address}/api/info", headers={"Host": host}), 421)
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:80", "[::1]", "LOCALHOST"):
        assert httpx.get(f"{address}/api/info", headers={"Host": host}).status_code == 200


def test_with_allowed_hosts_every_other_name_is_refused(service):
    with running(service, allow_hosts=("Elmo.Example.org", "127.0.0.1")) as (address, _):
        for host in ("evil.example", "localhost", "example.org", ""):
            message = refused(httpx.get(f"{address}/health", headers={"Host": host}), 421)
            assert message.endswith("expected 127.0.0.1 or elmo.example.org")
        for host in ("elmo.example.org", "ELMO.example.org:443", "127.0.0.1:8000"):
            assert httpx.get(f"{address}/health", headers={"Host": host}).status_code == 200


def ask(address, text, timeout=20):
    return httpx.post(f"{address}/api/predict/ner", json={"texts": [text]}, timeout=timeout)


@pytest.mark.parametrize(
    ("limit", "status"), [("max_in_flight", 503), ("max_in_flight_of_client", 429)]
)
def test_too_many_requests_at_a_time_are_turned_away(model, task, limit, status):
    task.may_continue.clear()
    with (
        running(Service(model, "tiny", None, {"ner": task}), limits={limit: 2}) as (address, _),
        ThreadPoolExecutor(2) as others,
    ):
        first = others.submit(ask, address, "One.")
        assert task.is_running.wait(20)
        second = others.submit(ask, address, "Two.")
        wait_until(lambda: in_flight(address) >= 2)
        answer = ask(address, "Three.")
        refused(answer, status)
        assert answer.headers["retry-after"] == "1"
        assert httpx.get(f"{address}/health").status_code == 200
        task.may_continue.set()
        assert [first.result().status_code, second.result().status_code] == [200, 200]
        assert ask(address, "Four.").status_code == 200


def in_flight(address):
    """Requests that are being answered, besides the one that asks."""
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    line = next(line for line in lines if line.startswith("elmo_requests_in_flight "))
    return float(line.split()[1]) - 1


def dropped(address, reason):
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    name = f'elmo_requests_dropped_total{{reason="{reason}"}} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def wait_until(is_so):
    gives_up_at = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < gives_up_at, "condition never became true"
        time.sleep(0.02)


def test_a_request_that_takes_too_long_is_refused_and_its_work_dropped(model, task):
    task.may_continue.clear()
    service = Service(model, "tiny", None, {"ner": task})
    with (
        running(service, limits={"timeout_seconds": 0.5}) as (address, _),
        ThreadPoolExecutor(2) as others,
    ):
        held_up = others.submit(ask, address, "Held up.")
        assert task.is_running.wait(20)
        waiting = others.submit(ask, address, "Waiting.")
        assert "timeout_seconds" in refused(held_up.result(), 503)
        assert "timeout_seconds" in refused(waiting.result(), 503)
        task.may_continue.set()
        assert ask(address, "Next.").status_code == 200
        assert dropped(address, "timeout") == 2
    assert task.labeled == [["Held", "up", "."], ["Next", "."]]


def test_the_work_of_a_client_that_goes_away_is_dropped(model, task):
    task.may_continue.clear()
    with (
        running(Service(model, "tiny", None, {"ner": task})) as (address, _),
        ThreadPoolExecutor(1) as others,
    ):
        first = others.submit(ask, address, "First.")
        assert task.is_running.wait(20)
        port = int(address.rsplit(":", 1)[1])
        body = b'{"texts": ["Gone."]}'
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(
                b"POST /api/predict/ner HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )
            wait_until(lambda: in_flight(address) >= 2)
        wait_until(lambda: dropped(address, "disconnect") == 1)
        task.may_continue.set()
        assert first.result().status_code == 200
        assert ask(address, "Last.").status_code == 200
    assert task.labeled == [["First", "."], ["Last", "."]]


def test_a_stop_answers_what_is_running(model, task):
    task.may_continue.clear()
    with (
        running(Service(model, "tiny", None, {"ner": task})) as (address, server),
        ThreadPoolExecutor(2) as others,
    ):
        answers = [others.submit(ask, address, text) for text in ("Running.", "Waiting.")]
        assert task.is_running.wait(20)
        wait_until(lambda: in_flight(address) >= 2)
        server.should_exit = True
        threading.Timer(0.3, task.may_continue.set).start()
        assert [answer.result().status_code for answer in answers] == [200, 200]
    with pytest.raises(httpx.ConnectError):
        ask(address, "Too late.")


def test_a_slow_body_is_not_waited_for(service):
    with running(service, limits={"timeout_seconds": 0.3}) as (address, _):
        port = int(address.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(
                b"POST /api/embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
            )
            assert b"408" in connection.recv(4096).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("sent", "is_second"), [(b"", False), (HALF_HEADER, False), (HALF_HEADER, True)]
)
def test_an_unfinished_header_is_not_waited_for(service, sent, is_second):
    with running(service, limits={"timeout_seconds": 0.3}) as (address, _):
        port = int(address.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            if is_second:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                received = b""
                while not received.endswith(b'{"status":"ok"}'):
                    received += connection.recv(4096)
            connection.sendall(sent)
            assert read_to_the_end(connection) == 0


class LongLabels:
    """A task model whose predictions are larger than the send buffer of a connection."""

    kind = "labels"

    def read_text(self, text):
        return [sentence.tokens for sentence in text]

    def length(self, tokens):
        return len(tokens)

    def predict(self, sentences):
        return [{"labels": ["x" * 20_000_000]} for _ in sentences]


def test_a_client_that_does_not_read_holds_its_slot_until_the_timeout(model):
    service = Service(model, "tiny", None, {"long": LongLabels(), "ner": Capitals()})
    limits = {"max_in_flight_of_client": 2, "timeout_seconds": 5}
    body = b'{"texts": ["A bow."]}'
    with running(service, limits=limits) as (address, _):
        port = int(address.rsplit(":", 1)[1])
        connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(2)]
        for connection in connections:
            connection.sendall(
                b"POST /api/predict/long HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert "max_in_flight_of_client" in refused(ask(address, "Third."), 429)
        wait_until(lambda: in_flight(address) == 0)
        assert ask(address, "Third.").status_code == 200
        for connection in connections:
            assert read_to_the_end(connection) < 20_000_000
            connection.close()


def read_to_the_end(connection):
    """The number of bytes until the connection is closed or reset."""
    n_bytes = 0
    try:
        while chunk := connection.recv(1_000_000):
            n_bytes += len(chunk)
    except ConnectionResetError:
        pass
    return n_bytes


def test_a_long_answer_arrives_whole(model):
    with running(Service(model, "tiny", None, {"long": LongLabels()})) as (address, _):
        answer = httpx.post(f"{address}/api/predict/long", json={"texts": ["A bow."]}, timeout=60)
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert len(answer.json()["texts"][0]["labels"][0]) == 20_000_000


def test_slow_bodies_without_a_token_take_no_slots(service):
    limits = {"max_in_flight": 1, "timeout_seconds": 20}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with running(service, TOKEN, limits=limits) as (address, _):
        port = int(address.rsplit(":", 1)[1])
        for start, status in (
            (b"POST /health", b"401"),
            (b"POST /", b"401"),
            (b"PUT /static/style.css", b"401"),
            (b"GET /health", b"200"),
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(
                    start + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
                )
                # The rest of the body is never sent, and not waited for.
                assert status in connection.recv(4096).split(b"\r\n")[0]
                body = {"texts": ["A bow."]}
                answer = httpx.post(f"{address}/api/embed", json=body, headers=headers, timeout=20)
                assert answer.status_code == 200


def test_a_token_is_read_from_a_file_or_a_variable(tmp_path, monkeypatch):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert read_token(tmp_path / "token", None) == TOKEN
    monkeypatch.setenv("ELMO_TOKEN", TOKEN)
    assert read_token(None, "ELMO_TOKEN") == TOKEN
    assert read_token(None, None) is None


@pytest.mark.parametrize("content", ["", "short", "two words here", "ünïcödé-token", "\x00" * 9])
def test_what_is_no_token_is_refused_without_being_shown(tmp_path, content):
    (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match="no valid token") as refusal:
        read_token(tmp_path / "token", None)
    assert not content or content not in str(refusal.value)
    with pytest.raises(ConfigError, match=r"\$ABSENT"):
        read_token(None, "ABSENT")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "absent", None)


def test_a_port_that_is_taken_is_one_clear_error(address):
    with pytest.raises(ConfigError, match="cannot listen on"):
        listen("127.0.0.1", int(address.rsplit(":", 1)[1]))
    with pytest.raises(ConfigError, match="cannot listen on"):
        listen("127.0.0.1", 99999)
    for host in ("a..b", "x" * 80):  # which cannot be encoded as host names
        with pytest.raises(ConfigError, match="cannot listen on"):
            listen(host, 0)


def test_settings_come_from_a_file_and_from_the_command_line(tmp_path):
    (tmp_path / "serve.toml").write_text("port = 1\n[limits]\nmax_tokens = 5\nmax_bytes = 6\n")
    config = read_config(tmp_path / "serve.toml", ("limits.max_bytes=7",), None, 9)
    assert (config.host, config.port) == (ServeConfig().host, 9)
    assert (config.limits.max_tokens, config.limits.max_bytes) == (5, 7)
    with pytest.raises(ConfigError, match="max_token'"):
        read_config(None, ("limits.max_token=7",), None, None)
    with pytest.raises(ConfigError, match="max_bytes is 0"):
        read_config(None, ("limits.max_bytes=0",), None, None)


def test_the_command_line_refuses_in_one_line(capsys, tmp_path):
    for arguments in (
        ["serve", "-m", str(tmp_path / "absent")],
        ["serve", "-m", str(tmp_path), "--set", "limits.unknown=1"],
        ["serve", "-m", str(tmp_path), "--token-variable", "ABSENT"],
        ["serve", "-m", str(tmp_path), "--token-variable", "A", "--token-file", "b"],
    ):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        written = capsys.readouterr()
        assert left.value.code == 2
        assert written.err.startswith("error: ")
        assert written.err.count("\n") == 1


def test_an_address_is_tried_before_the_model_is_loaded(capsys, tmp_path, address):
    taken = ["--port", address.rsplit(":", 1)[1]]
    for arguments in (taken, ["--host", "a..b"]):
        with pytest.raises(SystemExit) as left:
            main(["serve", "-m", str(tmp_path / "absent"), *arguments])
        assert left.value.code == 2
        assert capsys.readouterr().err.startswith("error: cannot listen on")
