"""Trees and labeled lines, and the phrases that are training examples."""

from pathlib import Path

import pytest

from elmo.errors import DataError
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.sentiment.data import read_tree

TREE = r"(3 (2 (2 It) (2 's)) (4 (4 (3 lovely) (2 -LRB-)) (2 and\/or)))"


def read(path, *sets, is_training=True):
    task = find_task("sentiment")
    return task.read(path, read_config(task.defaults(), None, sets), is_training=is_training)


def test_a_tree_has_a_phrase_for_each_node_the_whole_first():
    phrases = read_tree(TREE, Path("file"), 1)
    assert [("".join(phrase.label), " ".join(phrase.tokens)) for phrase in phrases] == [
        ("3", "It 's lovely ( and/or"),
        ("2", "It 's"),
        ("2", "It"),
        ("2", "'s"),
        ("4", "lovely ( and/or"),
        ("4", "lovely ("),
        ("3", "lovely"),
        ("2", "("),
        ("2", "and/or"),
    ]


@pytest.mark.parametrize(
    "line",
    ["(3", "(3 (2 a)", "(3 a))", "(3 a) b", "(3 a) (2 b)", "()", "(3 )", "(3 (2 ) a)", "( (2 a))"],
)
def test_a_broken_tree_is_named_by_file_and_line(tmp_path, line):
    path = tmp_path / "trees.txt"
    path.write_text(f"{TREE}\n\n{line}\n")
    with pytest.raises(DataError, match=r"trees.txt:3: "):
        read(path)


@pytest.mark.parametrize("line", ["no tab here", "4\t", "4\t   "])
def test_a_line_without_a_text_is_named_by_file_and_line(tmp_path, line):
    path = tmp_path / "texts.txt"
    path.write_text(f"4\tgood\n{line}\n")
    with pytest.raises(DataError, match=r"texts.txt:2: .*expected a tree"):
        read(path)


def test_phrases_are_learned_from_and_sentences_measured(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text(f"{TREE}\n{TREE}\npositive\tA raw text, here.\n")
    learned, measured = read(path), read(path, is_training=False)
    assert [len(example.tokens) for example in measured] == [5, 5, 6]
    # Sentences as they come, each phrase once, none of a single word.
    assert sorted(len(example.tokens) for example in learned) == [2, 2, 3, 5, 5, 6]
    assert len(read(path, "data.min_tokens=1")) == 6 + 5
    assert len(read(path, "data.has_phrases=false")) == 3
    few = read(path, "data.max_phrases=1")
    assert len(few) in (4, 5)
    assert few == read(path, "data.max_phrases=1")


def test_a_sentence_and_its_phrases_are_sampled_together(tmp_path):
    task = find_task("sentiment")
    path = tmp_path / "trees.txt"
    path.write_text(f"{TREE}\n(1 (2 The) (0 end))\n")
    groups = {task.sampling_group(example) for example in read(path)}
    assert groups == {1, 2}


def test_accuracy_is_counted_by_hand(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("4\tgood\n0\tbad\n2\tso so\n")
    examples = read(path, is_training=False)
    scores = find_task("sentiment").score(examples, ["4", "1", "2"])
    assert scores == {"accuracy": pytest.approx(200 / 3)}
