"""ESIM against a plain reference: one pair at a time, one token at a time, no padding."""

import torch

from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nli.data import SentencePair
from elmo.tasks.nli.model import Esim
from elmo.tasks.word_table import WordList, WordTable

WORDS = tuple(f"w{number}" for number in range(30))
PAIRS = [
    SentencePair(("w1", "w2", "w3", "w4"), ("w2", "w9")),
    SentencePair(("w5",), ("w6", "w7", "w1", "w8", "w3", "w3")),
    SentencePair(("w10", "unknown"), ("w10", "w11")),
]


def build(source, place):
    """A network of thirty words with ELMo at a place."""
    sets = ["words.dim=6", "model.dim=5", f"elmo.place={place}"]
    config = read_config(find_task("nli").defaults(), None, sets)
    torch.manual_seed(1)
    words = WordTable(WordList(WORDS, (), True), 6)
    tokens = TokenVectors(config, words, source(config.elmo))
    return Esim(tokens, ["contradiction", "entailment", "neutral"], config.model).eval()


def plain_lstm(lstm, vectors):
    """The equations of an LSTM, token by token."""
    parameters = dict(lstm.named_parameters())
    hidden = cell = torch.zeros(lstm.hidden_size)
    outputs = []
    for x in vectors:
        gates = (
            parameters["weight_ih_l0"] @ x
            + parameters["bias_ih_l0"]
            + parameters["weight_hh_l0"] @ hidden
            + parameters["bias_hh_l0"]
        )
        i, f, g, o = gates.chunk(4)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return outputs


def plain_bilstm(bilstm, vectors):
    left = plain_lstm(bilstm.forward_layers[0], vectors)
    right = plain_lstm(bilstm.backward_layers[0], vectors[::-1])[::-1]
    return [torch.cat(both) for both in zip(left, right, strict=True)]


def plain_encode(model, tokens):
    """Encode each token with the first biLSTM, and append ELMo if it is at the output."""
    batch = model.tokens.read([tokens])
    encoded = plain_bilstm(model.encoder, list(model.tokens(batch)[0]))
    at_output = model.tokens.add_at_output(torch.zeros(1, len(tokens), 0), batch)[0]
    return [torch.cat(both) for both in zip(encoded, at_output, strict=True)]


def plain_compose(model, own, others):
    """Local inference and its composition for one sentence, equations 11 to 19 of Chen et al."""
    composed = []
    for a in own:
        weights = torch.softmax(torch.stack([a @ b for b in others]), 0)
        attended = sum(w * b for w, b in zip(weights, others, strict=True))
        compared = torch.cat([a, attended, a - attended, a * attended])
        composed.append(torch.relu(model.reduce.weight @ compared + model.reduce.bias))
    composed = torch.stack(plain_bilstm(model.inference, composed))
    return [composed.mean(0), composed.max(0).values]


@torch.no_grad()
def test_scores_equal_the_plain_reference(source):
    for place in ("input", "both"):
        model = build(source, place)
        scores = model.score(PAIRS)
        for row, pair in zip(scores, PAIRS, strict=True):
            a, b = (plain_encode(model, tokens) for tokens in (pair.premise, pair.hypothesis))
            pooled = torch.cat([*plain_compose(model, a, b), *plain_compose(model, b, a)])
            decided = torch.tanh(model.decide.weight @ pooled + model.decide.bias)
            expected = model.scores.weight @ decided + model.scores.bias
            torch.testing.assert_close(row, expected, atol=1e-5, rtol=1e-5)
