"""The model inside the package: it is opened by default and by name, and it knows English."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from elmo import Elmo
from elmo.cli.main import main
from elmo.models import ENGLISH, locate
from elmo.probes.senses import compare_nearest, words_of_several_senses
from elmo.search.wordnet.sentences import read_written

FOLDER = locate(Path(ENGLISH))


@pytest.fixture(scope="module")
def english():
    return Elmo.load()


def test_the_name_and_no_name_open_the_same_model(english):
    by_name = Elmo.load("english").embed("I took a bow.")
    np.testing.assert_array_equal(by_name.layers, english.embed("I took a bow.").layers)


def test_a_folder_of_that_name_goes_first(elmo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    elmo.save("english")
    assert Elmo.load("english").output_dim == elmo.output_dim


def test_a_path_that_only_ends_like_the_name_is_a_path(tmp_path):
    assert locate(tmp_path / ENGLISH) == tmp_path / ENGLISH


def test_it_is_small_on_disk_and_exact_in_memory(english):
    files = list(FOLDER.iterdir())
    assert sum(path.stat().st_size for path in files) < 50e6
    with safe_open(FOLDER / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F16"}  # noqa: SIM118
    assert english.embed("bow").layers.dtype == np.float32


def test_it_predicts_words(english):
    assert len(english.model.vocabulary) >= 40_000
    found = english.substitutes(["He", "___", "born", "in", "1950", "."], 1, 5)
    assert "was" in [substitute.word for substitute in found]
    usual, odd = english.score(["He was born in London.", "Born London was in he."])
    assert usual.perplexity("forward") < odd.perplexity("forward")


def test_words_are_nearest_to_their_own_sense_far_above_chance(english):
    found = compare_nearest(english, words_of_several_senses(read_written()), "fresh")
    assert found.n_occurrences > 50
    assert found.by_layer[0] == pytest.approx(found.chance, abs=1)
    assert min(found.by_layer[1:]) > found.chance + 15


def test_verbs_take_it_where_no_model_is_named(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("I took a bow.\n")
    with pytest.raises(SystemExit) as end:
        main(["score", str(tmp_path / "text.txt"), "--json"])
    assert not end.value.code
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["perplexity"]
