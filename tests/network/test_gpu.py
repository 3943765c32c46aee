"""The network on a GPU: CPU results, and no synchronization. No GPU has run these tests yet."""

import numpy as np
import pytest
import torch

from benchmarks.gpu import count_launches, launches_per_step
from elmo.api import Elmo
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.config import tiny
from elmo.network.softmax import build_head
from elmo.text.vocabulary import Vocabulary
from tests.random_models import encode_batch

SENTENCES = [["I", "took", "a", "bow", "."], ["bow"], ["a", "bow", "and", "arrow"]]
SYNCHRONIZING = {"aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::nonzero"}


def build_model():
    torch.manual_seed(1)
    return BiLM(tiny()).eval()


def test_a_step_launches_few_kernels():
    # Two products, two clips, and six operations of the gates.
    assert launches_per_step(build_model()) <= 10


def test_the_steps_wait_for_no_result():
    counts = count_launches(build_model(), n_steps=3)
    assert not SYNCHRONIZING & counts.keys()


@pytest.mark.gpu
def test_vectors_and_gradients_are_those_of_the_cpu():
    found = []
    for device in ("cpu", "cuda"):
        bilm = build_model().to(device)
        layers = bilm(encode_batch(SENTENCES, 50, 3).to(device)).layers
        layers.square().sum().backward()
        found.append([layers, *(weight.grad for weight in bilm.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other.cpu(), one, atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
def test_texts_are_embedded_and_scored_as_on_the_cpu():
    words = Vocabulary.of_words(["bow", "arrow", "a"])
    torch.manual_seed(2)
    head = build_head("full", len(words), tiny().lstm.projection_dim).eval()
    elmo = Elmo(Model(build_model(), head, words))
    layers = [each.layers for each in elmo.embed_tokens(SENTENCES)]
    scored = elmo.score_tokens(SENTENCES)
    elmo.to("cuda")
    for one, other in zip(elmo.embed_tokens(SENTENCES), layers, strict=True):
        np.testing.assert_allclose(one.layers, other, atol=1e-5)
    for one, other in zip(elmo.score_tokens(SENTENCES), scored, strict=True):
        for context, log_probs in other.sentences[0].log_probs.items():
            np.testing.assert_allclose(one.sentences[0].log_probs[context], log_probs, atol=1e-4)


@pytest.mark.gpu
def test_a_batch_on_a_gpu_is_run_without_waiting_for_it():
    bilm = build_model().to("cuda")
    batch = encode_batch(SENTENCES, 50, 3).to("cuda")
    bilm(batch)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.no_grad():
            bilm(batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
