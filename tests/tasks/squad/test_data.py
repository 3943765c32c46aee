"""Questions from SQuAD's JSON, and from broken files of it."""

import json
import lzma

import pytest

from elmo.errors import DataError
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.squad.data import read_context
from elmo.tasks.squad.metrics import score_answers
from elmo.tasks.train import build_trained, train_task
from tests.tasks.tiny_tasks import PARAGRAPHS, as_squad

TEXT = "Ann sang. Bob, who ran, saw a well-known bow."


def read(path, *sets, is_training=True):
    task = find_task("squad")
    return task.read(path, read_config(task.defaults(), None, sets), is_training=is_training)


def write(path, *answers, question="Who?", context=TEXT):
    qas = [{"question": question, "answers": list(answers)}]
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    return path


def with_answers(answers):
    qas = [{"question": "Who?", "answers": answers}]
    return json.dumps({"data": [{"paragraphs": [{"context": "x", "qas": qas}]}]})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.json"


def test_answers_are_spans_of_tokens_and_questions_share_their_paragraph(path):
    path = path.with_suffix(".json.xz")
    path.write_bytes(lzma.compress(as_squad(PARAGRAPHS).encode()))
    questions = read(path)
    assert len(questions) == 10
    assert questions[0].context is questions[3].context
    assert questions[0].context.sentences == (
        ("Ann", "Lee", "took", "a", "bow", "."),
        ("She", "sang", "in", "Rome", ",", "in", "1907", "."),
    )
    assert [question.span for question in questions[:4]] == [(0, 1), (9, 9), (12, 12), (3, 4)]
    assert questions[1].tokens == ("Where", "did", "she", "sing", "?")
    for question in questions:
        first, last = question.span
        offsets = question.context.offsets
        assert question.context.text[offsets[first][0] : offsets[last][1]] == question.answers[0]


def test_an_answer_inside_of_a_token_is_that_token(path):
    start = TEXT.index("known")
    (question,) = read(write(path, {"text": "known", "answer_start": start}))
    assert question.span == (10, 10)
    (question,) = read(write(path, {"text": " Bob,", "answer_start": TEXT.index(" Bob")}))
    assert question.span == (3, 4)
    (question,) = read(write(path, {"text": "Ann ", "answer_start": 0}))
    assert question.span == (0, 0)


def test_paragraphs_are_cut_at_sentence_ends():
    whole = read_context(TEXT, 100, "")
    assert [len(sentence) for sentence in whole.sentences] == [3, 10]
    assert read_context(TEXT, 13, "") == whole
    assert read_context(TEXT, 12, "").sentences == whole.sentences[:1]
    assert read_context(TEXT, 1, "").sentences == whole.sentences[:1]
    assert read_context(TEXT, 12, "").offsets == whole.offsets[:3]


def test_questions_whose_answer_is_cut_off_are_left_out_of_training_alone(path):
    write(path, {"text": "Bob", "answer_start": TEXT.index("Bob")})
    assert len(read(path)) == 1
    limits = ("data.train_tokens=5", "data.test_tokens=5")
    with pytest.raises(DataError, match="no question"):
        read(path, *limits)
    assert read(path, *limits, is_training=False)[0].answers == ("Bob",)
    # An answer that extends beyond the cut is cut off, too.
    write(path, {"text": "sang. Bob", "answer_start": TEXT.index("sang")})
    with pytest.raises(DataError, match="no question"):
        read(path, *limits)


def test_long_questions_are_cut(path):
    write(path, {"text": "Ann", "answer_start": 0}, question="who " * 60)
    assert len(read(path)[0].tokens) == 50


@pytest.mark.parametrize(("share", "numbers"), [(1, {0, 1, 2}), (0.67, {1, 2}), (0.34, {2})])
def test_a_share_is_of_whole_paragraphs_and_for_training_alone(path, share, numbers):
    path.write_text(as_squad(PARAGRAPHS))
    texts = list(PARAGRAPHS)
    found = {question.context.text for question in read(path, f"data.paragraph_fraction={share}")}
    assert found == {texts[k] for k in numbers}
    assert len(read(path, f"data.paragraph_fraction={share}", is_training=False)) == 10


def test_questions_without_answers_can_be_asked_but_not_learned_or_measured(path):
    task, (question,) = find_task("squad"), read(write(path), is_training=False)
    assert question.answers == ()
    with pytest.raises(DataError, match=r"qas\[0\]: no answer"):
        read(path)
    with pytest.raises(DataError, match=r"1 questions without reference answers, such as 'Who\?'"):
        task.check_scorable([question])


def test_dev_questions_without_answers_are_refused_before_training(path):
    task, dev = find_task("squad"), path.with_name("dev.json")
    write(path, {"text": "Ann", "answer_start": 0})
    config = read_config(task.defaults(), None, [], has_elmo=False)
    with pytest.raises(DataError, match="1 questions without reference answers"):
        train_task(task, config, path, write(dev), path.with_name("run"))
    assert not path.with_name("run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [\n{"paragraphs": ]}', r"file.json:2: not JSON \(.*column 16"),
        ("[]", "file.json: nothing at 'data', expected list"),
        ('{"data": [{"paragraphs": 3}]}', r"file.json: data\[0\]: '3' at 'paragraphs'"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', r"data\[0\].paragraphs\[0\]: .*'context'"),
        ('{"data": [{"paragraphs": [{"context": " "}]}]}', "the context is empty"),
        ('{"data": [{"paragraphs": [{"context": "x", "qas": [{}]}]}]}', r"qas\[0\]: .*'question'"),
        ('{"data": []}', "file.json: no question"),
        (with_answers(5), r"qas\[0\]: '5' at 'answers', expected list"),
        (with_answers({"text": ["x"], "answer_start": [0]}), "at 'answers', expected list"),
        (with_answers([5]), r"qas\[0\].answers: nothing at 'text', expected str"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_place(path, content, message):
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read(path)


def test_an_answer_must_stand_where_it_is_said_to(path):
    write(path, {"text": "Bob", "answer_start": 3})
    with pytest.raises(DataError, match=r"answers\[0\]: the context has ' sa' at answer_start 3"):
        read(path)
    write(path, {"text": "Bob"})
    with pytest.raises(DataError, match=r"answers\[0\]: nothing at 'answer_start', expected int"):
        read(path)
    write(path, {"text": "Ann", "answer_start": 0}, question=" ")
    with pytest.raises(DataError, match=r"qas\[0\]: the question is empty"):
        read(path)


def test_lines_are_a_question_and_its_paragraph():
    task = find_task("squad")
    (question,) = task.read_text(["", "Who sang?\tAnn sang. Bob ran."])
    assert question.tokens == ("Who", "sang", "?")
    assert question.context.sentences == (("Ann", "sang", "."), ("Bob", "ran", "."))
    with pytest.raises(DataError, match="line 2: 'Who', expected a question, a tab"):
        list(task.read_text(["Who?\tAnn.", "Who"]))
    with pytest.raises(DataError, match="line 1: the context is empty"):
        list(task.read_text(["Who?\t"]))


def test_lines_are_cut_by_the_settings_of_the_model():
    task, line = find_task("squad"), "Who was it that sang?\tAnn sang. Bob ran."
    sets = ["data.question_tokens=2", "data.test_tokens=3"]
    config = read_config(task.defaults(), None, sets, has_elmo=False)
    trained = build_trained(task, config, list(task.read_text([line])), None)
    (question,) = trained.read_text([line])
    assert question.tokens == ("Who", "was")
    assert question.context.sentences == (("Ann", "sang", "."),)


def test_nearly_all_answers_of_the_shared_data_are_whole_tokens(shared):
    questions = read(shared / "data/squad/train.json.xz", "data.paragraph_fraction=0.005")
    assert len(questions) > 400
    found = []
    for question in questions:
        offsets, (first, last) = question.context.offsets, question.span
        found.append(question.context.text[offsets[first][0] : offsets[last][1]])
    scores = score_answers(found, [question.answers for question in questions])
    assert scores["exact_match"] > 98
