"""Arbitrary requests, concurrent requests, and a server that is killed."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.models import model_folder
from tests.serve.conftest import running
from tests.serve.test_limits import wait_until

JSON = {"Content-Type": "application/json"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
ALMOST = st.fixed_dictionaries(
    {},
    optional={
        "texts": ANYTHING | st.lists(st.text(max_size=60) | st.lists(st.text(max_size=9))),
        "sentence": ANYTHING | st.text(max_size=60) | st.lists(st.text(max_size=9), max_size=9),
        "position": ANYTHING | st.integers(0, 5),
        "k": ANYTHING | st.integers(1, 9),
        "layers": ANYTHING | st.sampled_from(["top", "all", 0, [0, 1, 2]]),
        "any_word": ANYTHING,
    },
)
PATHS = [
    "/api/embed",
    "/api/score",
    "/api/substitutes",
    "/api/neighbors",
    "/api/predict/ner",
    "/v1/embeddings",
    "/embed_all",
]


@given(st.sampled_from(PATHS), ALMOST | ANYTHING)
def test_whatever_is_sent_the_server_does_not_fail(client, path, body):
    wanted = {
        "/api/score": ["texts"],
        "/api/predict/ner": ["texts"],
        "/api/embed": ["texts", "layers"],
    }
    if isinstance(body, dict) and path in wanted:
        body = {name: value for name, value in body.items() if name in wanted[path]}
    answer = client.post(path, content=json.dumps(body), headers=JSON)
    assert answer.status_code in (200, 413, 422), answer.text
    answer.json()


@given(st.sampled_from(PATHS), st.binary(max_size=200))
def test_whatever_bytes_are_sent_the_server_does_not_fail(client, path, content):
    answer = client.post(path, content=content, headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_the_answers_are_those_that_the_description_promises(address, mode):
    """Let schemathesis generate valid or invalid requests from /openapi.json; check the answers."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is absent")
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    refusals = {"expected-statuses": ["400", "401", "404", "405", "406", "413", "415", "422"]}
    config = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": refusals}})
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json", config=config)
    generation = schemathesis.GenerationMode(mode)
    n_checked = 0
    for operation in schema.get_all_operations():

        @hypothesis.settings(
            max_examples=20,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=[hypothesis.HealthCheck.filter_too_much],
        )
        @hypothesis.given(case=operation.ok().as_strategy(generation_mode=generation))
        def check(case):
            nonlocal n_checked
            # No schema can express that a position is inside its sentence, or a text not blank.
            is_exact = case.path in ("/api/embed", "/api/score", "/api/predict/{task}")
            excluded = [] if is_exact else [positive_data_acceptance]
            case.call_and_validate(excluded_checks=excluded)
            n_checked += 1

        with suppress(hypothesis.errors.Unsatisfiable):  # there is no invalid request
            check()
    assert n_checked > 80


def test_answers_under_load_are_those_without_it(service):
    texts = [
        random.Random(k).choices(["I", "took", "a", "bow", ".", "The", "cold", "ship"], k=k)
        for k in range(1, 30)
    ]
    with running(service, limits={"batch_tokens": 200}) as (address, _):
        ask = [
            lambda text: httpx.post(
                f"{address}/api/embed", json={"texts": [text], "layers": "all"}, timeout=60
            ).json()["texts"][0]["vectors"],
            lambda text: httpx.post(
                f"{address}/api/score", json={"texts": [text]}, timeout=60
            ).json()["texts"][0]["sentences"][0]["log_probs"]["combined"],
        ]
        questions = [(one, text) for text in texts for one in ask]
        alone = [one(text) for one, text in questions]
        random.Random(0).shuffle(order := list(range(len(questions))))
        with ThreadPoolExecutor(16) as clients:
            found = clients.map(lambda k: questions[k][0](questions[k][1]), order)
            together = dict(zip(order, found, strict=True))
    for k, expected in enumerate(alone):
        np.testing.assert_allclose(together[k], expected, atol=2e-5)


@pytest.fixture
def start(model, tmp_path):
    """Return a function that starts `elmo serve` in its own process, which ends with the test."""
    model_folder.save(tmp_path / "model", model.model)
    processes = []

    def start(port):
        command = [sys.executable, "-m", "elmo", "serve", "-m", str(tmp_path / "model")]
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        address = process.stdout.readline().strip().rstrip("/")
        wait_until(lambda: _answers(address))
        return process, address

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def _answers(address):
    try:
        return httpx.get(f"{address}/health").status_code == 200
    except httpx.TransportError:
        return False


def test_a_killed_server_breaks_cleanly_and_the_next_one_answers(start):
    process, address = start(0)
    port = int(address.rsplit(":", 1)[1])
    with httpx.Client(base_url=address) as client:
        assert client.post("/api/score", json={"texts": ["I took a bow."]}).status_code == 200
        with socket.create_connection(("127.0.0.1", port)) as half_sent:
            half_sent.sendall(
                b"POST /api/embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            )
            process.send_signal(signal.SIGKILL)
            process.wait()
            with suppress(ConnectionResetError):
                assert half_sent.recv(100) == b""
        with pytest.raises(httpx.TransportError):
            client.post("/api/score", json={"texts": ["I took a bow."]})
        again, same_address = start(port)
        assert same_address == address
        assert client.post("/api/score", json={"texts": ["I took a bow."]}).status_code == 200
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) in (0, 143)


def test_ctrl_c_ends_the_server_without_a_traceback(start):
    process, address = start(0)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(30) in (0, 130)
    assert process.stderr.read().strip() == ""
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{address}/health")
