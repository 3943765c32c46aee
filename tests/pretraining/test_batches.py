"""Streams: every position once per epoch and direction, whatever the rows, and from any step."""

from collections import Counter
from itertools import pairwise

import pytest
import torch

from elmo.pretraining.batches import InputOutputEncoder, Streams, pack_sentences
from elmo.pretraining.corpus import build_cache
from elmo.text.characters import Marker, encode_words
from elmo.text.vocabulary import BEGIN, END
from elmo.text.word_encoder import Lexicon, WordEncoder

DOCUMENTS = [
    [["a1", "a2", "a3"], ["a4"], ["a5", "a6", "a7", "a8", "a9"]],
    [["b1", "b2"]],
    [["c1", "c2", "c3", "c4"], ["c5", "c6"]],
    [["d1"], ["d2"], ["d3", "d4", "d5", "d6", "d7", "d8", "d9"]],
]
N_POSITIONS = sum(len(words) + 1 for document in DOCUMENTS for words in document)


@pytest.fixture
def cache(tmp_path):
    text = "\n\n".join("\n".join(" ".join(words) for words in doc) for doc in DOCUMENTS)
    (tmp_path / "text.txt").write_text(text)
    return build_cache([tmp_path / "text.txt"], tmp_path / "cache", "tokens")


def make_streams(
    cache, batch_size=1, bptt_length=5, backward="mirrored", reset="never", seed=0, **growth
):
    encoder = InputOutputEncoder(
        cache.vocabulary(), WordEncoder(Lexicon(), max_characters=50, widest_filter=3)
    )
    return Streams(
        cache,
        encoder,
        batch_size=batch_size,
        bptt_length=bptt_length,
        seed=seed,
        backward=backward,
        reset=reset,
        **growth,
    )


def spell(streams, batch, direction):
    """The pairs of words that a direction reads and predicts: [row][step]."""
    vocabulary = streams._encoder.vocabulary
    encoded = encode_words(
        [Marker.BEGIN_SENTENCE, Marker.END_SENTENCE, *vocabulary.words[3:]], 50, 3
    )
    spellings = ["<S>", "</S>", *vocabulary.words[3:]]
    known = {
        tuple(row[: batch.char_ids.shape[1]].tolist()): spellings[n]
        for n, row in enumerate(encoded)
    }
    words = [known[tuple(row[: encoded.shape[1]].tolist())] for row in batch.char_ids]
    inputs = [words[i] for i in batch.index[direction].tolist()]
    targets = [vocabulary.words[i] for i in batch.targets[direction].tolist()]
    n_rows = batch.batch_sizes[0]
    pairs = list(zip(inputs, targets, strict=True))
    return [pairs[row::n_rows] for row in range(n_rows)]


def read(streams, n_steps, direction):
    """All pairs of each row over some steps."""
    rows = [[] for _ in range(streams.batch_size)]
    for step in range(n_steps):
        for row, pairs in zip(rows, spell(streams, streams.batch(step), direction), strict=True):
            # Windows that are read from the right are reversed, to count positions from the left.
            is_turned = direction == 1 and streams._backward == "same_rows"
            row.extend(pairs[::-1] if is_turned else pairs)
    return rows


def expected_pairs(direction):
    pairs = Counter()
    for document in DOCUMENTS:
        for words in document:
            items = ["<S>", *words, "</S>"]
            if direction == 1:
                items.reverse()
            pairs.update(pairwise(items))
    return pairs


@pytest.mark.parametrize("backward", ["mirrored", "same_rows"])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(
    ("batch_size", "bptt_length"), [(1, N_POSITIONS), (3, 4), (2, 7), (5, 1), (4, 40)]
)
def test_every_position_is_read_once_per_epoch_and_direction(
    cache, backward, direction, batch_size, bptt_length
):
    streams = make_streams(cache, batch_size, bptt_length, backward)
    assert streams.n_positions == N_POSITIONS
    lengths = [
        (r + 1) * N_POSITIONS // batch_size - r * N_POSITIONS // batch_size
        for r in range(batch_size)
    ]
    rows = read(streams, -(-max(lengths) // bptt_length), direction)
    found = Counter(
        pair for row, length in zip(rows, lengths, strict=True) for pair in row[:length]
    )
    assert found == expected_pairs(direction)


def test_the_forward_model_never_reads_the_end_nor_the_backward_one_the_beginning(cache):
    streams = make_streams(cache, 2, 6)
    for direction, marker in ((0, "</S>"), (1, "<S>")):
        rows = read(streams, 10, direction)
        assert marker not in {pair[0] for row in rows for pair in row}
        assert marker in {pair[1] for row in rows for pair in row}


def test_same_rows_predicts_what_the_forward_model_reads_in_the_window(cache):
    streams = make_streams(cache, 3, 6, "same_rows")
    for step in range(5):
        batch = streams.batch(step)
        forward, backward = spell(streams, batch, 0), spell(streams, batch, 1)
        for left, right in zip(forward, backward, strict=True):
            assert [(target, read) for read, target in left] == right[::-1]
        assert batch.resets[1][:3].all()


def test_documents_come_whole_in_an_order_that_changes_with_epoch_and_seed(cache):
    def order(streams, epoch):
        steps = range(epoch * N_POSITIONS, (epoch + 1) * N_POSITIONS)
        words = [spell(streams, streams.batch(step), 0)[0][0][0] for step in steps]
        return [w for w in words if w != "<S>"]

    orders = [
        order(make_streams(cache, bptt_length=1, seed=seed), e) for seed in (0, 1) for e in (0, 1)
    ]
    assert len({tuple(words) for words in orders}) >= 3
    for words in orders:
        for letter in "abcd":
            own = [w for w in words if w[0] == letter]
            first = words.index(own[0])
            assert words[first : first + len(own)] == own == sorted(own)


def test_a_batch_depends_on_its_number_alone(cache):
    streams, again = make_streams(cache, 3, 4), make_streams(cache, 3, 4)
    expected = [streams.batch(step) for step in range(12)]
    for step in (11, 3, 7):
        batch = again.batch(step)
        torch.testing.assert_close(batch.char_ids, expected[step].char_ids)
        for mine, theirs in zip(batch.index, expected[step].index, strict=True):
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("growth_interval", [1, 4, 6])
def test_rows_read_the_same_text_while_the_batch_size_grows(cache, growth_interval):
    plain = make_streams(cache, 4, 5)
    growing = make_streams(cache, 4, 5, initial_batch_size=1, growth_interval=growth_interval)
    windows = [[] for _ in range(4)]
    sizes = []
    while len(windows[0]) < 8:
        step = len(sizes)
        found = spell(growing, growing.batch(step), 0)
        for row, pairs in zip(range(4)[growing.rows(step)], found, strict=True):
            windows[row].append(pairs)
        sizes.append(len(found))
    assert sizes == sorted(sizes)
    assert set(sizes) == {1, 2, 4}
    assert sizes.count(1) == max(4, -(-growth_interval // 4) * 4)
    expected = [spell(plain, plain.batch(step), 0) for step in range(8)]
    assert windows == [list(row) for row in zip(*expected, strict=True)]


def test_steps_and_epochs_agree_while_the_batch_size_grows(cache):
    streams = make_streams(cache, 4, 1, initial_batch_size=1, growth_interval=3)
    n_read = [streams.n_epochs_read(step) * N_POSITIONS for step in range(40)]
    sizes = [streams.batch(step).batch_sizes[0] for step in range(39)]
    assert [after - before for before, after in pairwise(n_read)] == pytest.approx(sizes)
    assert [streams.n_steps(n / N_POSITIONS - 1e-9) for n in n_read[1:]] == list(range(1, 40))


def test_slices_of_rows_are_the_rows_of_the_whole(cache):
    streams = make_streams(cache, 4, 5)
    whole = spell(streams, streams.batch(2), 1)
    halves = [spell(streams, streams.batch(2, rows), 1) for rows in (slice(0, 2), slice(2, 4))]
    assert halves[0] + halves[1] == whole


def test_resets_stand_at_sentence_or_document_starts(cache):
    never = make_streams(cache, 1, N_POSITIONS).batch(0)
    assert never.resets is None or not any(reset.any() for reset in never.resets)
    for reset, expected in (("sentence", 9), ("document", 4)):
        streams = make_streams(cache, 1, N_POSITIONS, reset=reset)
        batch = streams.batch(0)
        for direction, marker in ((0, "<S>"), (1, "</S>")):
            (pairs,) = spell(streams, batch, direction)
            places = batch.resets[direction].nonzero().squeeze(1).tolist()
            assert len(places) == expected
            assert all(pairs[place][0] == marker for place in places)
            if reset == "sentence":
                assert len(places) == sum(read == marker for read, _ in pairs)


def test_same_rows_reset_where_a_sentence_ends_inside_the_window(cache):
    streams = make_streams(cache, 1, N_POSITIONS, "same_rows", "sentence")
    batch = streams.batch(0)
    (pairs,) = spell(streams, batch, 1)
    places = batch.resets[1].nonzero().squeeze(1).tolist()
    assert places == [n for n, (read, _) in enumerate(pairs) if read == "</S>"]


def test_words_that_are_only_predicted_are_not_encoded(cache):
    batch = make_streams(cache, 2, 3).batch(1)
    read = torch.cat(batch.index)
    assert sorted(set(read.tolist())) == list(range(len(batch.char_ids)))


def test_packed_sentences_stand_longest_first_and_whole(cache):
    streams = make_streams(cache)
    sentences = [["d1"], ["a1", "a2", "a3"], ["b1", "b2"]]
    batch = pack_sentences(sentences, streams._encoder, ("forward", "backward"))
    assert batch.batch_sizes == [3, 3, 2, 1]
    words = streams._encoder.vocabulary.words
    assert [words[i] for i in batch.targets[0].tolist()] == [
        *("a1", "b1", "d1"), *("a2", "b2", "</S>"), *("a3", "</S>"), "</S>"
    ]  # fmt: skip
    assert [words[i] for i in batch.targets[1].tolist()] == [
        *("a3", "b2", "d1"), *("a2", "b1", "<S>"), *("a1", "<S>"), "<S>"
    ]  # fmt: skip
    assert {BEGIN, END} <= set(torch.cat(batch.targets).tolist())
