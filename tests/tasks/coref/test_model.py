"""The span ranker against plain loops over spans and pairs."""

import numpy as np
import pytest
import torch

from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.coref.data import Document
from elmo.tasks.coref.model import DISTANCES, SpanRanker
from elmo.tasks.coref.spans import build_clusters, list_spans, prune_spans
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.word_table import WordList, WordTable

WORDS = [f"w{number}" for number in range(50)]


def build(*sets):
    """A ranker of fifty words, without ELMo."""
    small = ("words.dim=6", "chars.filters=[[2, 4]]", "model.dim=5", "model.hidden_dim=7")
    config = read_config(find_task("coref").defaults(), None, [*small, *sets], has_elmo=False)
    torch.manual_seed(1)
    words = WordTable(WordList(tuple(WORDS), (), True), 6)
    return SpanRanker(TokenVectors(config, words, None), config.model, ["bc", "nw"]).eval()


def random_sentences(n_tokens, seed=0):
    random = np.random.default_rng(seed)
    words = [WORDS[k] for k in random.integers(0, len(WORDS), n_tokens)]
    cuts = np.flatnonzero(random.random(n_tokens) < 0.1)
    sentences = np.split(np.array(words), cuts)
    return tuple(tuple(sentence.tolist()) for sentence in sentences if len(sentence))


def test_spans_stay_within_their_sentence_and_width():
    spans = list_spans([3, 1, 2], 2).T.tolist()
    assert spans == [[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [3, 3], [4, 4], [4, 5], [5, 5]]


def plain_pruning(spans, scores, n_kept):
    kept = []
    for number in sorted(range(len(spans)), key=lambda k: (-scores[k], k)):
        a, b = spans[number]
        crossing = [(c, d) for c, d in (spans[k] for k in kept) if a < c <= b < d or c < a <= d < b]
        if not crossing and len(kept) < n_kept:
            kept.append(number)
    return sorted(kept, key=lambda k: spans[k])


@pytest.mark.parametrize("seed", range(20))
def test_pruning_equals_brute_force(seed):
    random = np.random.default_rng(seed)
    spans = list_spans([9, 4, 12], 6)
    scores = random.normal(size=spans.shape[1]).astype(np.float32).round(1)  # some are equal
    for n_kept in (1, 7, 25, 200):
        found = prune_spans(spans.numpy(), scores, n_kept)
        assert found == plain_pruning(list(map(tuple, spans.T.tolist())), scores, n_kept)


def test_links_make_clusters():
    assert build_clusters([None, 0, None, 1, 2, None]) == [[0, 1, 3], [2, 4]]


@torch.no_grad()
def plain_vectors(model, sentences):
    """[start; end; head; width] of each span, through the first layer, one span at a time."""
    batch = model.tokens.read(sentences)
    x = model.tokens(batch)
    hidden = model.encoder(x, batch.lengths)[batch.mask]
    x = x[batch.mask]
    weight = torch.cat([model.start.weight, model.end.weight, model.head.weight], dim=1)

    def vector(first, last):
        attention = torch.softmax(model.head_weight(hidden[first : last + 1])[:, 0], 0)
        head = attention @ x[first : last + 1]
        joined = torch.cat([hidden[first], hidden[last], head])
        width = model.width.weight[last - first]
        return torch.relu(weight @ joined + model.start.bias + width)

    return vector


@torch.no_grad()
def plain_layers(scorer, x):
    """The output of a scorer, computed layer by layer."""
    for layer in scorer.layers:
        x = torch.relu(layer.weight @ x + layer.bias)
    return float(scorer.output.weight[0] @ x + scorer.output.bias[0])


@torch.no_grad()
def plain_score(model, vectors, i, j, speakers, genre):
    """The coarse and the full score of span j as the antecedent of span i."""
    mention = [plain_layers(model.mention, vectors[k]) for k in (i, j)]
    coarse = model.coarse(vectors[i]) @ vectors[j]
    bucket = max(k for k, least in enumerate(DISTANCES) if i - j >= least)
    weight = torch.cat([model.anaphor.weight, model.antecedent.weight, model.similarity.weight], 1)
    joined = torch.cat([vectors[i], vectors[j], vectors[i] * vectors[j]])
    relation = 0 if None in speakers else 1 if speakers[0] == speakers[1] else 2
    features = (
        model.distance.weight[bucket]
        + model.speaker.weight[relation]
        + model.genre.weight[{None: 0, "bc": 1, "nw": 2}[genre]]
    )
    hidden = torch.relu(weight @ joined + model.anaphor.bias + features)
    score = sum(mention) + coarse + plain_layers(model.pair, hidden)
    return float(coarse + mention[1]), float(score)


# The long document exceeds what is read, scored or ranked in one chunk.
@pytest.mark.parametrize(
    ("n_tokens", "n_rows", "genre"), [(60, 24, None), (60, 24, "nw"), (5000, 12, "bc")]
)
def test_scores_equal_plain_loops(n_tokens, n_rows, genre):
    model = build("model.max_antecedents=9", "model.max_width=4")
    sentences = random_sentences(n_tokens)
    # Names of three speakers, and tokens that nobody speaks.
    speakers = tuple(("ann", "bob", "eve", None)[k // 7 % 4] for k in range(n_tokens))
    name = "0 (a)" if genre is None else f"0 ({genre}/a/0); part 000"
    document = Document(name, sentences, speakers=speakers if genre else ())
    with torch.no_grad():
        ranking = model.rank(document)
    n_kept = len(ranking.spans)
    assert n_kept == int(0.4 * n_tokens)
    vector = plain_vectors(model, sentences)
    vectors = [vector(start, stop - 1) for start, stop in ranking.spans]
    for i in np.linspace(1, n_kept - 1, n_rows).astype(int).tolist():
        spoken = [speakers[start] if genre else None for start, _ in ranking.spans]
        plain = [plain_score(model, vectors, i, j, (spoken[i], spoken[j]), genre) for j in range(i)]
        best = sorted(range(i), key=lambda j: -plain[j][0])[:9]
        found = ranking.antecedents[i][ranking.is_before[i]].tolist()
        assert set(found) == set(best)
        expected = [0.0, *(plain[j][1] for j in found)]
        finite = ranking.scores[i][: len(expected)]
        torch.testing.assert_close(finite, torch.tensor(expected), atol=1e-4, rtol=1e-4)


def test_the_loss_counts_every_right_antecedent_that_is_looked_at():
    model = build("model.spans_per_word=1", "model.max_width=3")
    sentences = random_sentences(25)
    with torch.no_grad():
        ranking = model.rank(Document("a", sentences))
        mentions = ranking.spans[3], ranking.spans[9], ranking.spans[15]
        document = Document("a", sentences, (mentions,))
        loss = float(model.loss([document]))
    right = {9: [3], 15: [3, 9]}
    expected = 0.0
    for i, scores in enumerate(ranking.scores):
        likely = torch.softmax(scores, 0)
        chosen = ranking.antecedents[i].tolist()
        places = [1 + chosen.index(j) for j in right.get(i, [])] or [0]
        expected -= float(likely[places].sum().log())
    assert loss == pytest.approx(expected, rel=1e-4)


def test_what_is_not_kept_and_what_comes_later_is_never_an_antecedent():
    model = build("model.spans_per_word=0.5")
    with torch.no_grad():
        ranking = model.rank(Document("a", random_sentences(80)))
    assert ranking.spans == sorted(ranking.spans)
    rows = torch.arange(len(ranking.spans))[:, None]
    assert torch.equal(ranking.is_before, ranking.antecedents < rows)
    assert torch.equal(ranking.scores[:, 1:].isfinite(), ranking.is_before)


def test_a_document_of_one_word_has_no_clusters_and_can_be_learned_from():
    model = build().train()
    document = Document("a", (("w1",),), ())
    loss = model.loss([document])
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert model.eval().predict([document]) == [[]]


def test_pieces_of_a_document_are_drawn_together(tmp_path):
    task = find_task("coref")
    rows = "".join(f"{k} w{k % 7} _\n" + ("\n" if k % 5 == 4 else "") for k in range(100))
    path = tmp_path / "data.conll"
    path.write_text(f"#begin document (a)\n{rows}\n#begin document (b)\n{rows}")
    config = read_config(task.defaults(), None, ["data.max_training_tokens=30"])
    pieces = task.read(path, config, is_training=True)
    assert [task.sampling_group(piece) for piece in pieces] == ["0 (a)"] * 4 + ["1 (b)"] * 4
    assert len(task.read(path, config, is_training=False)) == 2
