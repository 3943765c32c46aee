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


def test_a_broken_file_is_told_in_one_line(refused, official, conllu, tmp_path):
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


def test_a_model_without_words_of_its_own_is_told_what_to_name(refused, official):
    assert "--vocabulary" in refused("probe", "oov", "-m", official)


def test_senses_of_the_packages_sentences_as_json(run, official):
    told = json.loads(run("probe", "senses", "-m", official, "--json").out)
    assert set(told["rows"]) == {"chance", "layer 0", "layer 1", "layer 2"}


def test_a_folder_without_sets_is_refused(refused, official, tmp_path):
    ask = ("probe", "wsd", "--semcor", tmp_path / "absent", "--sets", tmp_path, "-m", official)
    assert "no set" in refused(*ask)
