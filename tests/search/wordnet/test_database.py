import pytest

from benchmarks.wordnet_sentences import Morphology
from elmo.errors import DataError
from elmo.search.wordnet.database import DEBIAN_FOLDER, WordNet


def test_senses_have_their_keys_most_frequent_first(wordnet_folder):
    wordnet = WordNet.read(wordnet_folder)
    assert wordnet.senses["bow", "n"] == ["bow%1:10:00::", "bow%1:06:01::"]
    assert wordnet.senses["run", "v"] == ["run%2:38:00::", "run%2:32:03::"]
    assert wordnet.first_sense("lead", "v") == "lead%2:32:10::"
    assert wordnet.first_sense("curtain_call", "n") == "curtain_call%1:10:00::"
    assert wordnet.first_sense("run", "n") is None


def test_a_satellite_has_its_head_in_its_key_and_no_bracket(wordnet_folder):
    assert WordNet.read(wordnet_folder).first_sense("galore", "a") == "galore%5:00:00:abundant:00"


def test_of_two_spellings_in_a_synset_the_first_counts(wordnet_folder):
    assert WordNet.read(wordnet_folder).first_sense("earth", "n") == "earth%1:17:00::"


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("data.noun", "00000900 06 n 02 bow 1 000 | one word too few"),
        ("data.noun", "00000900 06 x 01 bow 1 000 | no such part of speech"),
        ("data.noun", "00000900 06 n 01 bow 1 000 no gloss"),
        ("data.noun", "00000900 06 n 01 bow"),
        ("index.noun", "arrow n 2 0 1 0 00000100"),
        ("index.noun", "arrow n many"),
    ],
)
def test_a_broken_line_is_named(wordnet_folder, file, line):
    path = wordnet_folder / file
    n_lines = len(path.read_text().splitlines())
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match="not a line of WordNet's database") as raised:
        WordNet.read(wordnet_folder)
    assert str(raised.value).startswith(f"{path}:{n_lines + 1}: ")


def test_an_index_of_another_version_is_refused(wordnet_folder):
    (wordnet_folder / "index.adv").write_text("fast r 1 0 1 0 00000801\n")
    with pytest.raises(DataError, match=r"'00000801'\) is missing"):
        WordNet.read(wordnet_folder)


def test_a_folder_without_wordnet_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"data\.noun: no such file"):
        WordNet.read(tmp_path)


def test_forms_lead_to_their_lemmas(wordnet_folder):
    morphology = Morphology.read(wordnet_folder)
    assert {"churches", "church"} <= morphology.lemmas("Churches", "n")
    assert "run" in morphology.lemmas("ran", "v")
    assert "run" not in morphology.lemmas("ran", "n")
    assert {"bake", "bak"} <= morphology.lemmas("baking", "v")
    assert "large" in morphology.lemmas("largest", "a")
    assert morphology.lemmas("fast", "r") == {"fast"}


@pytest.mark.slow
@pytest.mark.skipif(
    not (DEBIAN_FOLDER / "index.sense").is_file(),
    reason="Debian's wordnet-base and wordnet-sense-index are not installed",
)
def test_keys_and_numbers_of_the_real_wordnet_are_those_of_its_sense_index():
    wordnet = WordNet.read()
    lines = (DEBIAN_FOLDER / "index.sense").read_text().splitlines()
    expected = {line.split()[0]: int(line.split()[2]) for line in lines}
    found = {
        key: number for keys in wordnet.senses.values() for number, key in enumerate(keys, start=1)
    }
    assert found == expected
