"""Propositions in columns of all kinds; errors in broken files name the file and line."""

import lzma

import pytest

from elmo.errors import DataError
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from tests.tasks.tiny_tasks import ROLES, as_propositions


def read(path, *sets):
    task = find_task("srl")
    return task.read(path, read_config(task.defaults(), None, sets), is_training=True)


def test_each_predicate_of_a_sentence_is_an_example(tmp_path):
    path = tmp_path / "file.conll.xz"
    path.write_bytes(lzma.compress(as_propositions(ROLES).encode()))
    propositions = read(path)
    assert len(propositions) == 10  # one sentence has no predicate
    said, seen = propositions[1:3]
    assert said.tokens == seen.tokens == ("He", "said", "he", "had", "seen", "it")
    assert (said.predicate, seen.predicate) == (1, 4)
    assert said.predicates == seen.predicates == (1, 4)
    assert said.labels == ("B-ARG0", "B-V", "B-ARG1", "I-ARG1", "I-ARG1", "I-ARG1")
    assert seen.labels == ("O", "O", "B-ARG0", "O", "B-V", "B-ARG1")


def test_columns_of_conll_2012_and_2005_are_chosen_by_number(tmp_path):
    path = tmp_path / "file.gold_conll"
    path.write_text(
        "#begin document (bc/x); part 000\n"
        "bc/x 0 0 Ann NNP (TOP(S(NP*) - - - speaker * (ARG0*) (7)\n"
        "bc/x 0 1 ran VBD (VP*)) run 01 1 speaker * (V*) -\n"
        "\n"
        "#end document\n"
    )
    (proposition,) = read(path, "data.first_column=11", "data.n_last_columns=1")
    assert (proposition.tokens, proposition.labels) == (("Ann", "ran"), ("B-ARG0", "B-V"))
    path.write_text("Ann - (A0*A0)\nran run (V*V)\n")
    (proposition,) = read(path, "data.word_column=0", "data.first_column=2")
    assert proposition.labels == ("B-A0", "B-V")


@pytest.mark.parametrize(
    ("fields", "line", "message"),
    [
        (["(V*)", "ARG1"], 2, "'ARG1' in column 8 where nothing is open"),
        (["(V*)", "*)"], 2, r"'\*\)' in column 8 where nothing is open"),
        (["(V*", "(ARG1*)"], 2, r"'\(ARG1\*\)' in column 8 after an open \(V"),
        (["(V*)", "(ARG1*"], 2, r"has an open \(ARG1"),
        (["*", "(ARG1*)"], 2, r"has no \(V\*\)"),
        (["(V*)", "*\t*"], 2, "10 columns, expected 9"),
        (["(V*)", "(ARG1(ARG2*))"], 2, "not nested"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path, fields, line, message):
    path = tmp_path / "broken.conll"
    start = "\t".join(["doc", "0", "0", "word", "X", "*", "-", "-"])
    path.write_text("".join(f"{start}\t{field}\n" for field in fields))
    with pytest.raises(DataError, match=f"broken.conll:{line}: .*{message}"):
        read(path)


def test_too_few_columns_are_refused(tmp_path):
    path = tmp_path / "broken.conll"
    path.write_text("Ann\tran\n")
    with pytest.raises(DataError, match=r"broken.conll:1: 2 columns, expected at least 4"):
        read(path)
    with pytest.raises(DataError, match=r"broken.conll:1: 2 columns, expected 8 and one for each"):
        read(path, "data.word_column=0")


def test_the_shared_data_have_as_many_predicates_as_they_say(shared):
    path = shared / "data/srl/propbank-ewt/dev.conll.xz"
    propositions = read(path)
    assert len(propositions) == 4956
    assert all(p.labels[p.predicate] == "B-V" for p in propositions)
