"""Column files of all kinds; errors in broken files name the file and line."""

import lzma

import pytest

from elmo.errors import ConfigError, DataError
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.tagging.data import get_field, read_columns


def read(path, *sets, name="ner"):
    task = find_task(name)
    return task.read(path, read_config(task.defaults(), None, sets), is_training=True)


@pytest.mark.parametrize(
    "content",
    [
        "Ann\tB-PER\nran\tO\n\nbow\tO\n",
        "Ann B-PER\nran O\n\nbow O",
        "-DOCSTART- O\n\nAnn I-PER\nran O\n\n\n\nbow O\n\n",
        "Ann\tS-PER\r\nran\tO\r\n\t\r\nbow\tO\r\n",
        "Ann NNP I-NP B-PER\nran VB I-VP O\n \nbow NN I-NP O\n",
    ],
    ids=["tabs", "spaces", "IOB1 with documents", "Windows, BIOES", "four columns"],
)
def test_columns_of_all_kinds_are_the_same_sentences(tmp_path, content):
    path = tmp_path / "file.conll"
    path.write_bytes(content.encode())
    first, second = read(path)
    assert (first.tokens, first.labels) == (("Ann", "ran"), ("B-PER", "O"))
    assert (second.tokens, second.labels) == (("bow",), ("O",))


def test_columns_are_chosen_by_number(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("1 Ann NNP B-PER x\n2 ran VB O x\n")
    columns = ("data.word_column=1", "data.label_column=3")
    assert read(path, *columns)[0].labels == ("B-PER", "O")
    columns = ("data.word_column=1", "data.label_column=2")
    assert read(path, *columns, name="pos")[0].labels == ("NNP", "VB")


def test_conllu_is_read_without_comments_ranges_and_empty_nodes(tmp_path):
    rows = ["1-2\tdon't", "1\tdo\t_\tAUX", "1.1\tx", "2\tn't\t_\tPART\tRB"]
    lines = ["# text = don't", *(row + "\t_" * (9 - row.count("\t")) for row in rows), ""]
    path = tmp_path / "file.conllu.xz"
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    (sentence,) = read(path, name="pos")
    assert (sentence.tokens, sentence.labels) == (("do", "n't"), ("AUX", "PART"))
    assert read(path, "data.label_column=4", name="pos")[0].labels == ("_", "RB")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"Ann\tB-PER\nran\n", 2, "1 column"),
        (b"Ann\tB-PER\n\nran\tVERB\n", 3, "the label 'VERB'"),
        (b"Ann\tB-PER\nran\t\tO\n\t\tO\n", 3, "1 column"),
        (b"Ann\tO\n\xff\tO\n", 2, "not UTF-8"),
        (b"Ann\tO\na\t \tb\n", 2, "the label 'b'"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path, content, line, message):
    path = tmp_path / "broken.conll"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"broken.conll:{line}: .*{message}"):
        read(path)


def test_a_missing_column_says_which(tmp_path):
    path = tmp_path / "broken.conll"
    path.write_text("Ann x B-PER\nran O\n")
    with pytest.raises(DataError, match=r"broken.conll:2: 2 columns, expected at least 3"):
        read(path, "data.label_column=2")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\tAnn\tPROPN", "3 columns, expected the 10 of CoNLL-U"),
        ("I took a bow.", "1 columns"),
        ("x\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_", "the word id 'x'"),
        ("1\t\tgo\tVERB\tVB\t_\t_\t_\t_\t_", "column 1 is empty"),
    ],
)
def test_a_broken_line_of_conllu_is_refused(tmp_path, line, message):
    path = tmp_path / "broken.conllu"
    path.write_text(f"# x\n{line}\n")
    with pytest.raises(DataError, match=f"broken.conllu:2: {message}"):
        read(path, name="pos")


def test_a_word_of_conllu_may_contain_a_space(tmp_path):
    path = tmp_path / "file.conllu"
    path.write_text("1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_\n")
    assert read(path, name="pos")[0].tokens == ("New York",)


def test_a_file_without_words_is_refused(tmp_path):
    path = tmp_path / "file.conllu"
    path.write_text("# nothing\n\n")
    with pytest.raises(DataError, match="no sentence"):
        read(path, name="pos")


def test_a_stated_format_is_followed_whatever_the_file_name(tmp_path):
    path = tmp_path / "file.conllu"
    path.write_text("Ann PROPN\n")
    assert read(path, "data.format=columns", name="pos")[0].labels == ("PROPN",)


def test_a_stated_scheme_is_held_to(tmp_path):
    path = tmp_path / "file.conll"
    path.write_text("a O\nb I-PER\n")
    assert read(path, "data.scheme=iob1")
    with pytest.raises(DataError, match=r"file.conll:2: the label 'I-PER' is not valid here"):
        read(path, "data.scheme=iob2")


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path):
    with pytest.raises(DataError, match=r"absent.conll: no such file"):
        list(read_columns(tmp_path / "absent.conll"))


def test_empty_fields_are_refused(tmp_path):
    path = tmp_path / "file.conll"
    path.write_text("a\t\tO\n")
    ((row,),) = read_columns(path)
    with pytest.raises(DataError, match=r"file.conll:1: column 1 is empty"):
        get_field(row, 1, path)


def test_a_word_may_contain_a_space_of_unicode(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("10\u00a0000 CD O\n\u3000 SYM O\n\nkm\u00a0\tNN\tO\n")
    assert [sentence.tokens for sentence in read(path)] == [
        ("10\u00a0000", "\u3000"),
        ("km\u00a0",),
    ]


@pytest.mark.parametrize(
    ("name", "has_spans", "expected"),
    [("ner", "false", "pos"), ("chunk", "false", "pos"), ("pos", "true", "ner")],
)
def test_labels_that_the_metric_does_not_measure_are_refused(tmp_path, name, has_spans, expected):
    path = tmp_path / "file.conll"
    path.write_text("Ann B-PER\n")
    with pytest.raises(ConfigError, match=rf"data\.has_spans is .* use `elmo train {expected}`"):
        read(path, f"data.has_spans={has_spans}", name=name)


def test_labels_that_are_not_of_spans_are_referred_to_the_task_for_them(tmp_path):
    path = tmp_path / "file.conll"
    path.write_text("The DET\n")
    with pytest.raises(DataError, match="use `elmo train pos` for labels that are not of spans"):
        read(path)
