import json

import pytest

WORDS = ["bow", "arrow", "ship", "string"] * 100
CONLLU = "".join(f"1\t{word}\t_\t_\t{word}\t_\t_\t_\t_\t_\n\n" for word in WORDS)


@pytest.fixture
def conllu(tmp_path):
    (tmp_path / "words.conllu").write_text(CONLLU)
    return tmp_path / "words.conllu"


@pytest.mark.parametrize("state", ["fresh", "warm", "carry"])
def test_parts_of_speech_from_every_state_as_json(run, official, conllu, state):
    ask = ("probe", "pos", "--train", conllu, "--test", conllu, "-m", official, "--state", state)
    told = json.loads(run(*ask, "--json").out)
    assert told["rows"]["layer 2"] == {"accuracy": 100}
    assert told["settings"]["state"] == state


def test_parts_of_speech_as_a_table(run, official, conllu):
    lines = run("probe", "pos", "--train", conllu, "--test", conllu, "-m", official).out.split("\n")
    assert lines[0] == "| part of speech, accuracy in % | accuracy |"
    assert lines[5] == "| layer 2 | 100.0 |"


def test_a_broken_file_is_reported_in_one_line(refused, official, conllu, tmp_path):
    (tmp_path / "broken.conllu").write_text("1\tbow\n")
    ask = ("probe", "pos", "--train", conllu, "-m", official)
    assert "broken.conllu:1: 2 columns" in refused(*ask, "--test", tmp_path / "broken.conllu")


def test_an_unknown_probe_is_refused(refused):
    assert "syntax" in refused("probe", "syntax")


def test_unseen_words_of_a_file_as_a_table(run, official, tmp_path):
    (tmp_path / "words.txt").write_text("people\nhowever\nsomething\n")
    out = run("probe", "oov", "--vocabulary", tmp_path / "words.txt", "-m", official).out
    assert out.startswith("| unseen words, % | in the static vectors | layer 0: nearest |")
    assert out.splitlines()[3].startswith("| swapped |  |")


def test_a_model_without_a_vocabulary_needs_one(refused, official):
    assert "--vocabulary" in refused("probe", "oov", "-m", official)


def test_senses_of_the_packages_sentences_as_json(run, official):
    told = json.loads(run("probe", "senses", "-m", official, "--json").out)
    assert set(told["rows"]) == {"chance", "layer 0", "layer 1", "layer 2"}


def test_a_folder_without_sets_is_refused(refused, official, tmp_path):
    ask = ("probe", "wsd", "--semcor", tmp_path / "absent", "--sets", tmp_path, "-m", official)
    assert "no set" in refused(*ask)


def test_trees_as_a_table(run, official, tmp_path):
    rows = [f"{k}\tbow\t_\tX\t_\t_\t{head}\t_\t_\t_\n" for k, head in ((1, 2), (2, 0), (3, 2))]
    (tmp_path / "trees.conllu").write_text("\n".join(["".join(rows)] * 3))
    path = tmp_path / "trees.conllu"
    ask = ("probe", "structure", "--train", path, "--test", path, "--epochs", "1", "--rank", "2")
    lines = run(*ask, "-m", official).out.splitlines()
    assert lines[0] == "| syntax trees, % | UUAS | DSpr. |"
    assert lines[2].startswith("| neighboring words | 100.0 |")


def test_words_in_context_as_json(run, official, tmp_path):
    (tmp_path / "a.data.txt").write_text("bow\tN\t1-1\ta bow\tthe bow\nbow\tN\t1-0\ta bow\tbow\n")
    (tmp_path / "a.gold.txt").write_text("T\nF\n")
    path = tmp_path / "a.data.txt"
    told = json.loads(run("probe", "wic", path, "--train", path, "-m", official, "--json").out)
    assert told["rows"]["majority label"] == {"accuracy": 50}


def test_coarse_senses_as_json(run, official, tmp_path):
    (tmp_path / "bow").mkdir()
    for part in ("train", "test"):
        (tmp_path / "bow" / f"{part}.data.txt").write_text("0\tbow\n1\tthe bow\n")
        (tmp_path / "bow" / f"{part}.gold.txt").write_text("0\n1\n")
    told = json.loads(run("probe", "coarse-wsd", tmp_path, "-m", official, "--json").out)
    assert told["rows"]["layer 1"]["all sentences"] == 100


def test_pairs_need_a_softmax(refused, official, tmp_path):
    pair = {"sentence_good": "The dogs run.", "sentence_bad": "The dogs runs."}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair))
    assert "softmax" in refused("probe", "pairs", tmp_path / "pairs.jsonl", "-m", official)


def test_a_table_of_reading_times_without_its_columns_is_refused(refused, official, tmp_path):
    (tmp_path / "times.tsv").write_text("word\tms\n")
    told = refused("probe", "reading", tmp_path / "times.tsv", "-m", official)
    assert "expected sentence, word, time" in told
