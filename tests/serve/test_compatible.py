"""Routes of other servers, called by their clients."""

import base64

import httpx
import numpy as np
import openai
import pytest

from tests.serve.conftest import running

TEXTS = ["I took a bow. It was cold!", "He drew a bow."]
TOKEN = "a-long-secret-token"


@pytest.fixture
def openai_client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


def pooled(model, layers):
    vectors = np.stack([text.pooled("mean", layers) for text in model.embed(TEXTS)])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "layers"), [("tiny", "average"), ("tiny:top", "top"), ("tiny:0", 0), ("tiny:1", 1)]
)
def test_the_openai_client_gets_mean_vectors_of_the_layers_it_names(
    openai_client, model, name, layers
):
    answer = openai_client.embeddings.create(model=name, input=TEXTS)  # as base64
    found = np.array([item.embedding for item in answer.data])
    np.testing.assert_allclose(found, pooled(model, layers), atol=1e-5)
    assert [item.index for item in answer.data] == [0, 1]
    assert answer.model == name
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 14


def test_the_openai_client_gets_plain_numbers_and_takes_one_text(openai_client, model):
    answer = openai_client.embeddings.create(
        model="tiny", input=TEXTS[0], encoding_format="float", dimensions=16, user="somebody"
    )
    assert len(answer.data) == 1
    np.testing.assert_allclose(answer.data[0].embedding, pooled(model, "average")[0], atol=1e-5)


def test_base64_is_little_endian_float32(client, model):
    body = {"model": "tiny", "input": TEXTS, "encoding_format": "base64", "unknown": 1}
    data = client.post("/v1/embeddings", json=body).json()["data"]
    found = [np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in data]
    np.testing.assert_allclose(found, pooled(model, "average"), atol=1e-5)


def test_the_openai_client_lists_models(openai_client):
    names = [model.id for model in openai_client.models.list()]
    assert names == ["tiny", "tiny:average", "tiny:top", "tiny:0", "tiny:1", "tiny:2"]
    assert openai_client.models.retrieve("tiny:top").id == "tiny:top"
    with pytest.raises(openai.NotFoundError, match="unknown model"):
        openai_client.models.retrieve("other")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "other"}, openai.NotFoundError, "unknown model 'other'"),
        ({"model": "tiny:7"}, openai.NotFoundError, "unknown model 'tiny:7'"),
        ({"model": "tiny:all"}, openai.NotFoundError, "unknown model"),
        ({"input": ["a", " "]}, openai.UnprocessableEntityError, "input 1 is empty"),
        ({"input": [1, 2]}, openai.UnprocessableEntityError, "input"),
        ({"dimensions": 3}, openai.UnprocessableEntityError, "dimensions 3, expected 16"),
        ({"input": ["a"] * 41}, openai.APIStatusError, "max_sentences"),
    ],
)
def test_the_openai_client_gets_clear_errors(openai_client, changes, error, message):
    with pytest.raises(error) as raised:
        openai_client.embeddings.create(**{"model": "tiny", "input": "a", **changes})
    assert message in raised.value.body["message"]
    assert raised.value.body["type"] == "invalid_request_error"
    assert raised.value.request_id


def test_the_openai_client_sends_its_key_as_token(service):
    with running(service, TOKEN) as (address, _):
        for key, is_right in ((TOKEN, True), ("another-token", False)):
            with openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
                if is_right:
                    assert client.embeddings.create(model="tiny", input="a").data
                else:
                    with pytest.raises(openai.AuthenticationError):
                        client.embeddings.create(model="tiny", input="a")


@pytest.mark.parametrize("is_list", [False, True])
def test_embed_all_gives_token_vectors_as_tei_does(client, model, is_list):
    inputs = TEXTS if is_list else TEXTS[0]
    answer = client.post("/embed_all", json={"inputs": inputs, "truncate": True}).json()
    expected = [text.vectors("average") for text in model.embed(TEXTS if is_list else TEXTS[:1])]
    assert len(answer) == len(expected)
    for found, vectors in zip(answer, expected, strict=True):
        np.testing.assert_allclose(found, vectors, atol=1e-5)


def test_embed_all_refuses_what_it_cannot_read(address):
    answer = httpx.post(f"{address}/embed_all", json={"inputs": 3})
    assert answer.status_code == 422
    assert "inputs" in answer.json()["error"]
