"""Pairs of sentences in all supported formats, and broken files."""

import gzip
import json

import pytest

from elmo.errors import DataError
from elmo.tasks import find_task
from elmo.tasks.nli.data import SentencePair, read_pairs

PAIR = SentencePair(("A", "dog", "runs", "."), ("It", "is", "n't", "asleep"), "neutral")
TEXTS = ("A dog runs.", "It isn't asleep")


# The header of SNLI's own tables, and a training pair with the label of one annotator.
SNLI = (
    "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    "\tsentence1\tsentence2\tcaptionID\tpairID\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\n"
    f"neutral\t( a )\t( b )\t(a)\t(b)\t{TEXTS[0]}\t{TEXTS[1]}\t1.jpg#4\t1.jpg#4r1n\tneutral"
)


def row(**fields):
    return json.dumps({"premise": "a", "hypothesis": "b", "label": "neutral"} | fields)


@pytest.mark.parametrize("end", ["\t\t\t\t\n", "\t\t\t\t\r\n", "\n", ""])
def test_empty_columns_at_the_end_of_a_line_may_be_absent(tmp_path, end):
    (tmp_path / "snli.txt").write_bytes((SNLI + end).encode())
    assert read_pairs(tmp_path / "snli.txt", is_training=True) == [PAIR]


def test_labels_may_be_numbers_and_those_without_a_gold_label_are_left_out(tmp_path):
    lines = [row(label=label) for label in (2, -1, "-", 0)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert [pair.label for pair in read_pairs(tmp_path / "a.jsonl", is_training=True)] == ["2", "0"]


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
        ("a.tsv", "premise\thypothesis\tlabel\nx\ty\tz\tneutral\n", 2, "4 columns, expected 3"),
        ("a.tsv", "premise\thypothesis\tlabel\tid\nx\ty\t\t1\n", 2, "the label is empty"),
        ("a.jsonl", '{"premise": "a"\n', 1, "not JSON"),
        ("a.jsonl", row(premise=None), 1, "premise is null, expected a string"),
        ("a.jsonl", row(hypothesis=["b"]), 1, r'hypothesis is \["b"\], expected a string'),
        ("a.jsonl", row(label=None), 1, "label is null, expected a string or a whole number"),
        ("a.jsonl", row(label=True), 1, "label is true"),
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
