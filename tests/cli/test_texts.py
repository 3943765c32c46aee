"""Every verb that reads text accepts several files and globs, and reports empty or missing text."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from elmo.cli.main import main
from tests.tasks.tiny_tasks import TINY_TASKS

NER = TINY_TASKS[0]
SETS = "vocabulary.min_count=1", "stream.batch_size=2", "stream.bptt_length=2"
TINY = ["--size", "tiny", "--max-steps", "1", *(w for s in SETS for w in ("--set", s))]


@pytest.fixture
def folder(tmp_path):
    """Two texts, and both in one."""
    texts = {"a.txt": "I took a bow .\n", "b.txt": "They stood at the bow .\nbow\n"}
    for name, text in (texts | {"both.one": "".join(texts.values()), "empty.txt": "\n"}).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def commands(folder, model):
    """For each verb, a function that runs it on texts and returns the result to compare."""
    tokens = "--lines", "tokens", "-m", model

    def embedded(run, *texts):
        run("embed", *texts, "-o", folder / "v.jsonl", *tokens)
        return [json.loads(line)["tokens"] for line in (folder / "v.jsonl").open()]

    def static(run, *texts):
        given = [word for text in texts for word in ("--text", text)]
        run("export-static", *given, "-o", folder / "static.txt", *tokens)
        return (folder / "static.txt").read_text()

    def neighbors(run, *texts):
        given = [word for text in texts for word in ("--text", text)]
        found = run("neighbors", "a *bow*", *given, "--json", *tokens).out
        return [near["tokens"] for near in json.loads(found)["in_context"]]

    return {
        "embed": embedded,
        "export-static": static,
        "neighbors": neighbors,
        "score": lambda run, *texts: run("score", *texts, *tokens).out,
        "evaluate": lambda run, *texts: json.loads(
            run("evaluate", model, *texts, "--lines", "tokens", "--json").out
        )["tokens"],
        "index": lambda run, *texts: run("index", *texts, "-o", folder / "index", *tokens).out,
    }


@pytest.mark.parametrize(
    "verb", ["embed", "export-static", "neighbors", "score", "evaluate", "index"]
)
def test_files_and_globs_are_read_as_one_text(run, folder, scoring_model, verb):
    call = commands(folder, scoring_model)[verb]
    expected = call(run, folder / "both.one")
    assert expected
    assert call(run, folder / "a.txt", folder / "b.txt") == expected
    assert call(run, folder / "[ab].txt") == expected


def test_a_run_trains_on_several_globs(run, folder):
    texts = "--train", folder / "a.txt", "--train", folder / "b.*", "--heldout", folder / "both.*"
    result = run("pretrain", *texts, *TINY, "--out", folder / "run")
    assert result.code == 0
    counts = [json.loads(path.read_text()) for path in folder.glob("run/cache/*/counts.json")]
    assert sorted(count["n_tokens"] for count in counts) == [12, 12]
    assert "0.0% unknown words" in result.out


def test_an_empty_text_is_said(run, refused, folder, scoring_model):
    empty = folder / "empty.txt"
    for words in (["embed", empty, "-o", folder / "v.npz"], ["score", empty]):
        result = run(*words, "-m", scoring_model)
        assert result.code == 0
        assert result.err == f"warning: {empty}: no words\n"
    for words in (["index", empty, "-o", folder / "index"], ["evaluate", scoring_model, empty]):
        model = [] if words[0] == "evaluate" else ["-m", scoring_model]
        assert "no words" in refused(*words, *model)


def test_perplexity_stands_beside_the_share_of_unknown_words(run, folder, scoring_model):
    result = run("score", folder / "a.txt", "-m", scoring_model)
    assert result.out.splitlines()[-1].split() == ["unknown", "words", "0.0%"]
    assert result.err == ""
    (folder / "other.txt").write_text("Quite different words here bow\n")
    for words in (
        ["score", folder / "other.txt", "-m", scoring_model, "--json"],
        ["evaluate", scoring_model, folder / "other.txt", "--json"],
    ):
        result = run(*words)
        assert json.loads(result.out.splitlines()[-1])["unknown_rate"] == pytest.approx(0.8)
        assert result.err.startswith("warning: 80% of the words are not in the vocabulary")


def test_a_missing_file_is_no_such_file(refused, folder, scoring_model):
    absent = folder / "absent.txt"
    for words in (
        ["embed", absent, "-o", folder / "v.npz"],
        ["score", absent],
        ["index", absent, "-o", folder / "index"],
        ["neighbors", "a *bow*", "--text", absent],
        ["export-static", "--text", absent, "-o", folder / "static.txt"],
        ["export-static", "--vocabulary", absent, "-o", folder / "static.txt"],
    ):
        assert refused(*words, "-m", scoring_model) == f"error: {absent}: no such file\n"
    assert f"error: {absent}: no such file\n" == refused("evaluate", scoring_model, absent)


@pytest.mark.parametrize("option", ["--layers", "--min-count", "--lines"])
def test_options_of_a_text_are_refused_for_a_vocabulary(refused, folder, scoring_model, option):
    value = {"--layers": "top", "--min-count": "2", "--lines": "tokens"}[option]
    (folder / "words.txt").write_text("bow\n")
    given = ("--vocabulary", folder / "words.txt", "-o", folder / "static.txt", option, value)
    assert "are for --text" in refused("export-static", *given, "-m", scoring_model)
    assert not (folder / "static.txt").exists()


@pytest.mark.parametrize("words", [("neighbors", "a *bow*"), ("serve",)])
def test_the_format_of_lines_is_refused_where_no_text_is_searched(refused, scoring_model, words):
    assert "--lines is for --text" in refused(*words, "--lines", "tokens", "-m", scoring_model)


@pytest.mark.parametrize(
    "words",
    [
        ["embed", "FOLDER", "-o", "OUT.h5"],
        ["index", "TEXT", "-o", "OUT.txt"],
        ["convert", "MODEL", "OUT.bin"],
        ["pretrain", "--train", "TEXT", "--heldout", "TEXT", "--out", "OUT.txt"],
        ["finetune", "MODEL", "--train", "TEXT", "--heldout", "TEXT", "--out", "OUT.txt"],
        ["train", "ner", "--train", "TEXT", "--dev", "TEXT", "--out", "OUT.model"],
    ],
    ids=lambda words: words[0],
)
def test_a_name_with_the_ending_of_a_file_does_not_become_a_folder(
    refused, folder, scoring_model, tmp_path, words
):
    places = {"FOLDER": folder, "TEXT": folder / "a.txt", "MODEL": scoring_model}
    words = [str(places.get(word, word)).replace("OUT", str(tmp_path / "out")) for word in words]
    told = "the output is a folder, expected a name without the file extension ."
    assert told in refused(*words)
    assert not list(tmp_path.glob("out*"))


BARE = """
import os, sys
assert not {"HOME", "PATH", "USER"} & set(os.environ)
os.path.expanduser = lambda path: path  # as for a user without an entry and without HOME
from elmo.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", [["embed", "TEXT", "-o", "OUT"], ["pretrain"], ["models"]])
def test_nothing_needs_git_a_home_or_a_compiler(folder, official, words):
    texts = "--train", "TEXT", "--heldout", "TEXT"
    if words == ["pretrain"]:
        words = ["pretrain", *texts, *TINY, "--out", "RUN"]
    places = {"TEXT": folder / "a.txt", "OUT": folder / "v.npz", "RUN": folder / "run"}
    words = [str(places.get(word, word)) for word in words]
    model = ["-m", str(official)] if words[0] == "embed" else []
    done = subprocess.run(
        [sys.executable, "-c", BARE, *words, *model],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder), "ELMO_HOME": "elmo"}
        if words[0] == "models"
        else {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_verbs_and_options(monkeypatch, capsys, shell):
    monkeypatch.setenv("_ELMO_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "elmo ex")
    monkeypatch.setenv("COMP_CWORD", "ex" if shell == "fish" else "1")
    with pytest.raises(SystemExit):
        main([])
    assert "export-static" in capsys.readouterr().out


def test_probe_alone_shows_its_help(run):
    alone, asked = run("probe"), run("probe", "--help")
    assert alone.code == 0
    assert alone.out == asked.out


def test_lines_of_tables_fit_the_terminal():
    pty = pytest.importorskip("pty", reason="this system has no terminals")
    parent, child = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "elmo", "models"],
        stdout=child,
        env=os.environ | {"COLUMNS": "60"},
    )
    os.close(child)
    shown = b""
    while True:
        try:
            some = os.read(parent, 65536)
        except OSError:  # the end of a terminal's output
            break
        if not some:
            break
        shown += some
    os.close(parent)
    assert done.wait() == 0
    lines = shown.decode().splitlines()
    assert len(lines) > 20
    assert max(map(len, lines[:-1])) <= 60
    assert any(line.endswith("...") for line in lines)


def test_predictions_are_of_all_files(run, folder, official):
    data = folder / NER.file_name
    data.write_text(NER.content, encoding="utf-8")
    sets = [word for entry in (*NER.sets, "train.n_epochs=1") for word in ("--set", entry)]
    paths = "--train", data, "--dev", data, "--out", folder / "ner"
    run("train", "ner", *paths, "-m", official, *sets)
    tokens = "--lines", "tokens"
    expected = run("predict", folder / "ner", folder / "both.one", *tokens).out
    assert run("predict", folder / "ner", folder / "a.txt", folder / "b.*", *tokens).out == expected
    assert "no words" in run("predict", folder / "ner", folder / "empty.txt").err
    one = json.loads(run("evaluate", folder / "ner", data, "--json").out)
    two = json.loads(run("evaluate", folder / "ner", data, data, "--json").out)
    assert one["f1"] == pytest.approx(two["f1"])


def test_arrays_of_several_files_have_the_numbers_of_one(run, folder, official):
    for name, texts in (("one", ["both.one"]), ("two", ["a.txt", "b.txt"])):
        paths = [folder / text for text in texts]
        run("embed", *paths, "-o", folder / f"{name}.npz", "-m", official, "--lines", "tokens")
    with np.load(folder / "one.npz") as one, np.load(folder / "two.npz") as two:
        assert set(one) == set(two)
        for key in ("0", "1", "2"):
            np.testing.assert_allclose(one[key], two[key], atol=1e-6)
