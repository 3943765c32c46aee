import lzma

import pytest

from elmo.errors import DataError
from elmo.tasks.coref.data import (
    CorefDataConfig,
    Document,
    cut,
    read_documents,
    split_tokens,
)

TWO_DOCUMENTS = """\
#begin document (nw/one); part 000
nw/one\t0\t0\tAnn\t-\t(1
nw/one\t0\t1\tLee\t-\t1)
nw/one\t0\t2\tsaw\t-\t-
nw/one\t0\t3\therself\t-\t(1)
nw/one\t0\t4\t#\t-\t-

nw/one\t0\t0\tShe\t-\t(1)
nw/one\t0\t1\tran\t-\t(2)
#end document
#begin document (nw/two); part 000
nw/two\t0\t0\tit\t-\t(7)
nw/two\t0\t0\tits\t-\t(3|(7)
nw/two\t0\t0\tend\t-\t3)

nw/two\t0\t0\tend\t-\t(3)
#end document
"""


def read(tmp_path, text, **settings):
    path = tmp_path / "data.conll"
    path.write_text(text, encoding="utf-8")
    return read_documents(path, CorefDataConfig(**settings))


def test_documents_sentences_and_clusters_are_read(tmp_path):
    one, two = read(tmp_path, TWO_DOCUMENTS)
    assert one.sentences == (("Ann", "Lee", "saw", "herself", "#"), ("She", "ran"))
    assert one.clusters == (((0, 2), (3, 4), (5, 6)),)
    assert two.clusters == (((0, 1), (1, 2)), ((1, 3), (3, 4)))
    assert one.name != two.name


def test_entities_mentioned_once_are_clusters_if_asked(tmp_path):
    one, _ = read(tmp_path, TWO_DOCUMENTS, has_singletons=True)
    assert one.clusters == (((0, 2), (3, 4), (5, 6)), ((6, 7),))


def test_short_rows_brackets_without_bars_and_xz_are_read_alike(tmp_path):
    rows = "0\ta\t(3(4\n1\tb\t4)\n2\tc\t3)(5)\n3\td\t(3)(4\n4\te\t4)\n5\tf\t(5)\n"
    path = tmp_path / "data.conll.xz"
    path.write_bytes(lzma.compress(f"# begin document \n{rows}# end document\n".encode()))
    (document,) = read_documents(path, CorefDataConfig())
    assert document.clusters == (((0, 2), (3, 5)), ((0, 3), (3, 4)), ((2, 3), (5, 6)))


def test_a_word_may_contain_a_white_space_that_is_no_plain_space(tmp_path):
    text = "#begin document (a); part 000\na  0  0  1\u00a0000  -  (1)\n#end document\n"
    (document,) = read(tmp_path, text, has_singletons=True)
    assert document.tokens == ["1\u00a0000"]


def test_an_empty_last_column_is_no_mention(tmp_path):
    (document,) = read(tmp_path, "#begin document (a)\na\t0\t0\tAnn\t_\t\n#end document\n")
    assert document.sentences == (("Ann",),)
    assert document.clusters == ()


def test_an_entity_named_within_its_own_description_closes_innermost_first(tmp_path):
    rows = "0 a (1\n1 b (1\n2 c 1)\n3 d 1)\n"
    (document,) = read(tmp_path, "#begin document (a)\n" + rows)
    assert document.clusters == (((0, 4), (1, 3)),)


def test_a_document_without_blank_lines_is_split_into_sentences(tmp_path):
    words = ["He", "ran", ".", "''", "Why", "?", "!", ")", "No"]
    assert split_tokens(words) == [("He", "ran", ".", "''"), ("Why", "?", "!", ")"), ("No",)]
    assert split_tokens([".", "a"]) == [(".",), ("a",)]
    rows = "".join(f"{k} {word} _\n" for k, word in enumerate(words))
    (document,) = read(tmp_path, "#begin document (a)\n" + rows)
    assert document.sentences == tuple(split_tokens(words))


@pytest.mark.parametrize(
    ("rows", "line", "what"),
    [
        ("0 a 1)\n", 2, r"1\) closes a mention, expected \(1 before it"),
        ("0 a _\n1 b (1\n2 c _\n", 3, "a mention begins here, expected its end"),
        ("0 a (x\n1 b y)\n", 3, r"y\) closes"),
        ("0\t \t_\n", 2, "column 1 is empty, expected a word"),
    ],
)
def test_broken_mentions_are_errors_with_their_line_or_skipped(tmp_path, rows, line, what):
    text = "#begin document (a)\n" + rows
    with pytest.raises(DataError, match=rf"data\.conll:{line}: .*{what}.*skips_broken"):
        read(tmp_path, text)
    (document,) = read(tmp_path, text + "9 z _\n", skips_broken=True)
    assert document.clusters == ()
    assert document.tokens[-1] == "z"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0 a _\n", r"data\.conll:1: .*before any document"),
        ("#begin document (a)\n0 a\n", r"data\.conll:2: 2 columns, expected a word in column 1"),
        ("#begin document (a)\n0 a 3\n", r"data\.conll:2: '3' in the last column"),
        ("#begin document (a)\n0 a (3))\n", r"data\.conll:2: '\(3\)\)' in the last column"),
        ("#begin document (a)\n#end document\n", r"data\.conll: document '0 \(a\)' has no words"),
        ("\n", r"data\.conll: no document"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, text, what):
    with pytest.raises(DataError, match=what):
        read(tmp_path, text)


def test_a_long_document_is_cut_between_sentences_and_keeps_its_tokens():
    lengths = [3, 8, 1, 20, 2, 2, 5, 9]
    sentences = tuple(tuple(f"{k}.{n}" for n in range(length)) for k, length in enumerate(lengths))
    spans = tuple((n, n + 1) for n in range(sum(lengths)))
    whole = Document("a", sentences, (spans, ((0, 3), (49, 50))))
    pieces = list(cut(whole, 12))
    assert [s for piece in pieces for s in piece.sentences] == list(sentences)
    assert len(pieces) > 2
    for piece in pieces:
        # Every token is a mention of the first entity, counted from the piece's own start.
        assert piece.clusters == (tuple((n, n + 1) for n in range(len(piece.tokens))),)
    assert list(cut(whole, 50)) == [whole]


def test_speakers_and_genres_are_read_where_the_data_has_them(tmp_path):
    def row(word, speaker, coref="-"):
        return " ".join(["bc/a/0", "0", "0", word, *["-"] * 5, speaker, "*", coref])

    rows = [row("I", "Ann", "(0)"), row("ran", "Ann"), "", row("You", "-", "(0)"), row(".", "Bob")]
    path = tmp_path / "data.conll"
    path.write_text("\n".join(["#begin document (bc/a/0); part 000", *rows, "#end document"]))
    (document,) = read_documents(path, CorefDataConfig())
    assert document.genre == "bc"
    assert document.speakers == ("Ann", "Ann", None, "Bob")
    assert [piece.speakers for piece in cut(document, 2)] == [("Ann", "Ann"), (None, "Bob")]
    path.write_text("# begin document GUM_academic_art\n0 I _\n1 ran _\n")
    (document,) = read_documents(path, CorefDataConfig())
    assert (document.genre, document.speakers) == ("academic", ())
    (document,) = read_documents(path, CorefDataConfig(speaker_column=0))
    assert document.speakers == ("0", "1")
