"""Which documents of the evaluation data share runs of words with a text."""

import lzma

from benchmarks.overlap import (
    N_SHARED,
    Document,
    article_starts,
    column_documents,
    document_starts,
    evaluation_documents,
    measure,
    overlap_table,
    shingles,
)

WORDS = [f"word{number}" for number in range(40)]


def write_xz(path, text):
    path.write_bytes(lzma.compress(text.encode()))
    return path


def test_runs_are_compared_without_case_and_punctuation():
    text = " ".join(WORDS[:N_SHARED])
    assert list(shingles(text)) == list(shingles(text.upper().replace(" ", ", ")))
    assert list(shingles(" ".join(WORDS[: N_SHARED - 1]))) == []
    assert len(list(shingles(" ".join(WORDS)))) == len(WORDS) - N_SHARED + 1


def test_a_document_overlaps_if_one_run_stands_in_the_text(tmp_path):
    text = write_xz(tmp_path / "text.txt.xz", f"Before {' '.join(WORDS[5:20])} after.\n\nMore.\n")
    documents = [
        Document("set", "test", "copied", ("other words", " ".join(WORDS))),
        Document("set", "test", "short", (" ".join(WORDS[5:17]),)),
        # A run that would cross from one paragraph to the next.
        Document("set", "test", "apart", (" ".join(WORDS[5:12]), " ".join(WORDS[12:20]))),
        Document("set", "dev", "own", (" ".join(reversed(WORDS)),)),
    ]
    found = measure([text], documents)
    assert found["parts"]["set/test"]["names"] == ["copied"]
    assert found["parts"]["set/test"]["overlapping"] == 1
    assert found["parts"]["set/test"]["runs_found"] == 3  # of 15 words in a row
    assert found["parts"]["set/dev"]["names"] == []
    assert found["text"] == {"files": ["text.txt.xz"], "words": 18}
    assert "| set/test | 3 | 1 | 10.71% |" in overlap_table(found)


def test_documents_in_columns_are_separated(tmp_path):
    path = tmp_path / "articles.conll"
    path.write_text("a O\n\nb O\n-DOCSTART- O\n\nc O\n")
    documents = list(column_documents("set", "all", path, 0, article_starts))
    assert [(each.name, each.texts) for each in documents] == [("0", ("a b",)), ("1", ("c",))]
    path.write_text("#begin document (x)\n0 a _\n#end document\n#begin document (y)\n0 b _\n")
    documents = list(column_documents("set", "all", path, 1, document_starts))
    assert [(each.name, each.texts) for each in documents] == [("0 (x)", ("a",)), ("1 (y)", ("b",))]


def test_every_data_set_is_compared(shared):
    found = {(each.data_set, each.part) for each in evaluation_documents(shared / "data")}
    for name in ("squad", "wnut17", "propbank-ewt", "ontogum", "litbank", "sst", "snli", "sick"):
        assert {(name, "train"), (name, "dev")} <= found
    assert {("wikigold", "all"), ("gap", "test"), ("wsd-eval", "test")} <= found
