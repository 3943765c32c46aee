import json

import pytest

from elmo.cli.main import main
from elmo.errors import ConfigError, DataError
from elmo.tasks import find_task
from elmo.tasks.coref.data import Document
from elmo.tasks.coref.gap import GAP_COLUMNS, Decision, decide, read_gap, score_decisions
from elmo.tasks.coref.model import Coref, CorefModelConfig
from tests.tasks.tiny_tasks import TINY_TASKS

TEXT = "Dr. Ann Lee met Eve Ray's son. Then she left."
FIELDS = ["t-1", TEXT, "she", "36", "Ann Lee", "4", "TRUE", "Eve Ray", "16", "FALSE", "url"]


def write(tmp_path, *rows, header=GAP_COLUMNS):
    path = tmp_path / "gap.tsv"
    path.write_bytes("".join("\t".join(row) + "\n" for row in (header, *rows)).encode())
    return path


def test_a_passage_has_its_pronoun_and_names_as_tokens(tmp_path):
    (passage,) = read_gap(write(tmp_path, FIELDS))
    tokens, pronoun = passage.tokens, passage.pronoun
    assert tokens[slice(*pronoun.span)] == ["she"]
    assert [tokens[slice(*name)] for name in pronoun.names] == [["Ann", "Lee"], ["Eve", "Ray"]]
    assert pronoun.refers == (True, False)
    assert not pronoun.is_masculine


def test_a_long_passage_and_a_carriage_return_in_it_are_read(tmp_path):
    (passage,) = read_gap(write(tmp_path, change(1, TEXT + " It\rrained." + " x" * 70_000)))
    assert len(passage.tokens) > 70_000


def change(number, value):
    return [value if k == number else field for k, field in enumerate(FIELDS)]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (FIELDS[:-1], "10 columns, expected 11"),
        (change(3, "35"), "Pronoun is 'she' at 35, where the text has something else"),
        (change(5, "x"), "A is 'Ann Lee' at x"),
        (change(6, "yes"), "expected TRUE or FALSE"),
    ],
)
def test_a_broken_passage_is_an_error_with_its_line(tmp_path, row, what):
    with pytest.raises(DataError, match=rf"gap\.tsv:3: .*{what}"):
        read_gap(write(tmp_path, FIELDS, row))


def test_a_table_of_another_kind_and_an_empty_one_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"gap\.tsv:1: .*GAP's header"):
        read_gap(write(tmp_path, header=("id", "text")))
    with pytest.raises(DataError, match="no passage"):
        read_gap(write(tmp_path))


@pytest.mark.parametrize(
    ("mention", "is_found"),
    [
        ((1, 3), True),  # Ann Lee
        ((0, 3), True),  # with a title
        ((2, 3), False),  # Lee alone may be another
        ((1, 4), False),  # a longer phrase that begins with the name
    ],
)
def test_a_name_is_found_where_its_mention_is_with_the_pronoun(tmp_path, mention, is_found):
    (passage,) = read_gap(write(tmp_path, FIELDS))
    clusters = [[mention, passage.pronoun.span]]
    assert [each.is_predicted for each in decide(passage, clusters)] == [is_found, False]
    assert not any(each.is_predicted for each in decide(passage, [[mention, (5, 6)]]))


def test_a_mention_that_merely_ends_with_the_name_is_another_mention(tmp_path):
    text = "The father of Ann Lee met President Eve Ray. Then she left."
    row = ["t-1", text, "she", "50", "Ann Lee", "14", "FALSE", "Eve Ray", "36", "TRUE", "url"]
    (passage,) = read_gap(write(tmp_path, row))
    father, president = (0, 5), (6, 9)
    assert passage.tokens[slice(*father)] == ["The", "father", "of", "Ann", "Lee"]
    assert passage.tokens[slice(*president)] == ["President", "Eve", "Ray"]
    found = decide(passage, [[father, president, passage.pronoun.span]])
    assert [each.is_predicted for each in found] == [False, True]


def test_a_possessive_belongs_to_the_name(tmp_path):
    (passage,) = read_gap(write(tmp_path, FIELDS))
    assert passage.tokens[4:7] == ["Eve", "Ray", "'s"]
    found = decide(passage, [[(4, 7), passage.pronoun.span]])
    assert [each.is_predicted for each in found] == [False, True]


def test_scores_are_counted_over_names_and_by_gender():
    # right, found, masculine: 2 hits, 1 miss and 1 false alarm; feminine: 1 hit, 2 misses.
    answers = [
        *[Decision(True, True, True)] * 2,
        Decision(True, False, True),
        Decision(False, True, True),
        Decision(True, True, False),
        *[Decision(True, False, False)] * 2,
        Decision(False, False, False),
    ]
    scores = score_decisions(answers)
    assert scores["precision"] == pytest.approx(100 * 3 / 4)
    assert scores["recall"] == pytest.approx(100 * 3 / 6)
    assert scores["f1"] == pytest.approx(60)
    assert scores["accuracy"] == pytest.approx(100 * 4 / 8)
    assert scores["f1_masculine"] == pytest.approx(100 * 2 / 3)
    assert scores["f1_feminine"] == pytest.approx(50)
    assert scores["bias"] == pytest.approx(0.75)


def test_gap_is_measured_with_and_not_trained_on(tmp_path):
    task = find_task("coref")
    path = write(tmp_path, FIELDS, change(6, "FALSE"))
    passages = task.read(path, task.defaults(), is_training=False)
    pronoun = passages[0].pronoun
    assert task.score(passages, [[[pronoun.names[0], pronoun.span]], []])["f1"] == 100
    with pytest.raises(DataError, match="no clusters to train on"):
        task.read(path, task.defaults(), is_training=True)


def test_a_trained_model_is_asked_by_the_command_line(trained, tmp_path, capsys):
    coref = next(tiny for tiny in TINY_TASKS if tiny.name == "coref")
    path = write(tmp_path, FIELDS)
    with pytest.raises(SystemExit) as left:
        main(["evaluate", str(trained(coref) / "run"), str(path), "--json"])
    assert not left.value.code
    assert set(json.loads(capsys.readouterr().out)) >= {"f1", "accuracy", "bias"}


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="max_width"):
        CorefModelConfig(max_width=0)


def test_passages_and_documents_are_not_scored_together(tmp_path):
    (passage,) = read_gap(write(tmp_path, FIELDS))
    document = Document("document", passage.sentences, clusters=())
    with pytest.raises(DataError, match="expected one kind"):
        Coref().score([passage, document], [[], []])
