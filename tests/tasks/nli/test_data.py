"""Pairs of sentences in the formats people have, and broken ones."""

import gzip
import json

import pytest

from elmo.errors import DataError
from elmo.tasks import find_task
from elmo.tasks.nli.data import SentencePair, read_pairs

PAIR = SentencePair(("A", "dog", "runs", "."), ("It", "is", "n't", "asleep"), "neutral")
TEXTS = ("A dog runs.", "It isn't asleep")


def test_every_format_gives_the_same_pair(tmp_path):
    first, second = TEXTS
    (tmp_path / "snli.tsv").write_text(
        f"gold_label\tid\tsentence1\tsentence2\nneutral\t1\t{first}\t{second}\n"
        f"-\t2\t{first}\t{second}\n"
    )
    (tmp_path / "sick.txt").write_text(
        "pair_ID\tsentence_A\tsentence_B\tentailment_label\n" + f"1\t{first}\t{second}\tNEUTRAL\n"
    )
    rows = [{"premise": first, "hypothesis": second, "label": "Neutral"}]
    (tmp_path / "mine.jsonl.gz").write_bytes(gzip.compress(json.dumps(rows[0]).encode()))
    for name in ("snli.tsv", "sick.txt", "mine.jsonl.gz"):
        assert read_pairs(tmp_path / name, is_training=True) == [PAIR], name


def test_one_file_of_several_sets_is_read_by_set(tmp_path):
    path = tmp_path / "SICK.txt"
    header = "sentence_A\tsentence_B\tentailment_label\tSemEval_set"
    sets = ["TRAIN", "TRIAL", "TEST", "TRAIN"]
    lines = [f"Dog {number}\tb\tNEUTRAL\t{name}" for number, name in enumerate(sets)]
    path.write_text("\n".join([header, *lines]))
    numbers = [pair.premise[1] for pair in read_pairs(path, is_training=True)]
    assert numbers == ["0", "3"]
    assert [pair.premise[1] for pair in read_pairs(path, is_training=False)] == ["1"]
    path.write_text("\n".join([header, lines[2]]))
    assert [pair.premise[1] for pair in read_pairs(path, is_training=False)] == ["2"]


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("a.tsv", "one\ttwo\tlabel\nx\ty\tz\n", 1, "the columns one, two, label"),
        ("a.tsv", "premise\thypothesis\tlabel\nx\ty\n", 2, "2 columns, expected 3"),
        ("a.tsv", "premise\thypothesis\tlabel\n\nx\t \tneutral\n", 3, "a sentence is empty"),
        ("a.jsonl", '{"premise": "a"\n', 1, "not JSON"),
        ("a.jsonl", "\n[1, 2]\n", 2, "no JSON object"),
        ("a.jsonl", '{"premise": "a"}\n', 1, "the columns premise"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path, name, content, line, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}:{line}: .*{message}"):
        read_pairs(tmp_path / name, is_training=True)


def test_raw_text_needs_two_sentences_per_line():
    task = find_task("nli")
    pairs = task.read_text(["A dog runs.\tIt isn't asleep", "", "alone"])
    assert next(pairs) == SentencePair(PAIR.premise, PAIR.hypothesis)
    with pytest.raises(DataError, match="line 3: 'alone', expected two sentences"):
        next(pairs)


def test_accuracy_is_counted_by_hand():
    scores = find_task("nli").score([PAIR, PAIR, PAIR, PAIR], ["neutral", "entailment"] * 2)
    assert scores == {"accuracy": 50.0}
