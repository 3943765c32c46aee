import lzma

import pytest

from elmo.errors import DataError
from elmo.probes.conllu import read_tagged

TEXT = """\
# sent_id = 1
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# sent_id = 2
1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize(
    ("tags", "expected"),
    [("xpos", [["PRP", "VBP", "RB"], ["NNP"]]), ("upos", [["PRON", "AUX", "PART"], ["PROPN"]])],
)
def test_written_words_are_read_with_their_tags(tmp_path, tags, expected):
    with lzma.open(tmp_path / "a.conllu.xz", "wt") as file:
        file.write(TEXT)
    found = read_tagged(tmp_path / "a.conllu.xz", tags)
    assert [sentence.tokens for sentence in found] == [["I", "do", "n't"], ["New York"]]
    assert [sentence.tags for sentence in found] == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("4\tgo\tgo\tVERB", "4 columns, expected the 10"),
        ("I took a bow.", "1 columns"),
        ("x\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_", "the word's number is 'x'"),
        ("4\t\tgo\tVERB\tVB\t_\t_\t_\t_\t_", "expected the 10"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, told):
    (tmp_path / "a.conllu").write_text(f"{TEXT.splitlines()[1]}\n{line}\n")
    with pytest.raises(DataError, match=told) as raised:
        read_tagged(tmp_path / "a.conllu")
    assert str(raised.value).startswith(f"{tmp_path / 'a.conllu'}:2: ")


def test_a_file_without_words_is_refused(tmp_path):
    (tmp_path / "a.conllu").write_text("# nothing\n\n")
    with pytest.raises(DataError, match="no words"):
        read_tagged(tmp_path / "a.conllu")
