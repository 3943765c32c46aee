import io
import json
import sys

import pytest

from elmo import Elmo
from elmo.cli.main import main
from elmo.inference.results import Scored
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head
from elmo.text.vocabulary import Vocabulary

TEXT = "I took a bow. It was cold!\nShe drew her bow.\n"


@pytest.fixture
def folder(bilm, tmp_path):
    """A model folder with a head."""
    vocabulary = Vocabulary.of_words(["I", "a", "bow", ".", "!", "It"])
    head = build_head("full", len(vocabulary), bilm.config.lstm.projection_dim)
    model_folder.save(tmp_path / "model", Model(bilm, head, vocabulary))
    return tmp_path / "model"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_scores_are_those_of_the_library(run, folder, text):
    *told, totals = map(json.loads, run("score", text, "-m", folder, "--json").out.splitlines())
    elmo = Elmo.load(folder)
    expected = [s for line in TEXT.splitlines() for s in elmo.score(line).sentences]
    assert [s["tokens"] for s in told] == [s.tokens for s in expected]
    for found, sentence in zip(told, expected, strict=True):
        for reading in ("forward", "backward", "combined"):
            assert found["surprisals"][reading] == pytest.approx(
                sentence.surprisal(reading).tolist(), abs=1e-4
            )
    assert totals["perplexity"] == pytest.approx(
        {r: Scored(expected).perplexity(r) for r in ("forward", "backward", "combined")}, rel=1e-4
    )


def test_a_reader_sees_a_line_a_word_and_unknown_words_marked(run, folder):
    lines = run("score", "-", "-m", folder, stdin=b"I took a bow.").out.splitlines()
    assert lines[0].split() == ["bits", "forward", "backward", "combined"]
    assert [line.split()[0] for line in lines[1:6]] == ["I", "took", "a", "bow", "."]
    assert lines[2].startswith("took ?")
    assert [line.split()[:2] for line in lines[-4:]] == [
        ["perplexity", "forward"],
        ["perplexity", "backward"],
        ["perplexity", "combined"],
        ["unknown", "words"],
    ]


def test_words_are_printed_whatever_the_encoding_of_the_system_is(folder, tmp_path, monkeypatch):
    (tmp_path / "russian.txt").write_text("Он взял лук .\n", encoding="utf-8")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    with pytest.raises(SystemExit) as left:
        main(["score", str(tmp_path / "russian.txt"), "-m", str(folder)])
    assert not left.value.code
    sys.stdout.flush()
    assert "\nвзял ?" in written.getvalue().decode("utf-8")


def test_a_model_without_a_softmax_cannot_score(refused, official):
    assert "no softmax" in refused("score", "-", "-m", official, stdin=b"I took a bow.")


def test_no_text_has_no_scores(run, folder):
    assert run("score", "-", "-m", folder).out == ""
    assert json.loads(run("score", "-", "-m", folder, "--json").out) == {
        "perplexity": {},
        "unknown_rate": 0.0,
    }


def test_neighbors_are_shown_with_their_sentences(run, folder, text):
    lines = run("neighbors", "They took a *bow*", "--text", text, "-m", folder).out.splitlines()
    assert sorted(line.split(maxsplit=1)[1] for line in lines[:2]) == [
        "I took a *bow* .",
        "She drew her *bow* .",
    ]
    assert lines[-1].startswith("without context: ")


def test_an_index_answers_as_the_text(run, folder, text, tmp_path):
    ask = ("neighbors", "They took a *bow*", "-m", folder, "--json", "--text")
    first = run(*ask, text)
    assert json.loads(first.out)["in_context"][0]["tokens"][-1] == "."
    made = run("index", text, "-o", tmp_path / "index", "-m", folder, "--json")
    assert json.loads(made.out) == {
        "n_tokens": 14,
        "n_sentences": 3,
        "n_words": 12,
        "has_graph": False,
    }
    again = run(*ask, tmp_path / "index")
    # The same sentences in the same order; a similarity may differ in its last bits.
    assert _rounded(json.loads(again.out)) == _rounded(json.loads(first.out))


def _rounded(value):
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


def test_without_a_text_neighbors_are_of_the_packages_own_sentences(run, folder):
    asked = run("neighbors", "They took another *bow*.", "-m", folder, "-k", "99", "--json")
    found = [" ".join(near["tokens"]) for near in json.loads(asked.out)["in_context"]]
    assert "I took a bow ." in found
    assert all("bow" in tokens.casefold().split() for tokens in found)


def test_a_sentence_without_a_marked_word_is_refused(refused, folder, text):
    assert "asterisks" in refused("neighbors", "a bow", "--text", text, "-m", folder)


def test_an_index_describes_its_content(run, folder, text, tmp_path):
    made = run("index", tmp_path, "-o", tmp_path / "index", "-m", folder).out
    assert made == f"{tmp_path}/index: 14 tokens, 12 distinct words, 3 sentences\n"


def test_a_text_that_is_missing_or_empty_is_refused_and_leaves_no_index(refused, folder, tmp_path):
    ask = ("-o", tmp_path / "index", "-m", folder)
    assert "nothing.txt: no such file" in refused("index", tmp_path / "nothing.txt", *ask)
    (tmp_path / "empty.txt").write_text("\n")
    assert "no words" in refused("index", tmp_path / "empty.txt", *ask)
    (tmp_path / "broken.txt").write_bytes(b"fine\n\xff\n")
    assert "broken.txt:2: not UTF-8" in refused("index", tmp_path / "broken.txt", *ask)
    assert not [path for path in tmp_path.iterdir() if "index" in path.name]


def test_a_folder_without_an_index_is_refused(refused, folder, tmp_path):
    line = refused("neighbors", "a *bow*", "--text", tmp_path, "-m", folder)
    assert "not a complete index" in line
    assert "elmo index" in line


def test_an_index_is_exported_when_it_is_built_and_later(run, refused, folder, text, tmp_path):
    pytest.importorskip("pyarrow")
    export = ("--parquet", tmp_path / "map.parquet", "--tsv", tmp_path / "log", "-m", folder)
    built = run("index", text, "-o", tmp_path / "index", *export)
    assert built.code == 0, built.err
    assert f"{tmp_path}/map.parquet: 14 words in context\n" in built.out
    first = (tmp_path / "map.parquet").read_bytes()
    later = run("index", tmp_path / "index", *export, "--json")
    assert json.loads(later.out)["exported"] == {
        str(tmp_path / "map.parquet"): 14,
        str(tmp_path / "log"): 14,
    }
    assert (tmp_path / "map.parquet").read_bytes() == first
    assert "Missing option '--out'" in refused("index", text, "-m", folder)
    assert "not a complete index" in refused("index", text, *export)


def test_a_folder_that_cannot_be_exported_to_is_refused_before_the_index_is_built(
    refused, folder, text, tmp_path
):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "notes.txt").write_text("mine")
    index = tmp_path / "index"
    told = refused("index", text, "-o", index, "--tsv", tmp_path / "log", "-m", folder)
    assert "contains 'notes.txt'" in told
    assert not index.exists()


def test_the_format_of_lines_is_refused_for_an_index(run, refused, folder, text, tmp_path):
    run("index", text, "-o", tmp_path / "index", "-m", folder)
    options = ("--text", tmp_path / "index", "--lines", "tokens", "-m", folder)
    assert "--lines is for --text" in refused("neighbors", "a *bow*", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "index", "--word", "bow"), "--word and --max-rows are for an export"),
        (("-o", "index", "--max-rows", "9"), "--word and --max-rows are for an export"),
        (("--tsv", "log", "--lines", "tokens"), "--exact and --lines are for a new index"),
        (("--tsv", "log", "--exact"), "--exact and --lines are for a new index"),
        (("-o", "index", "--exact", "--layers", "1"), "--layers is for the search graph"),
        (("-o", "index", "--tsv", "log", "--max-rows", "0"), "--max-rows 0, expected at least"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    refused, folder, text, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    assert message in refused("index", text, "-m", folder, *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "text.txt"]
