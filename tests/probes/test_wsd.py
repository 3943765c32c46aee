import json

import numpy as np
import pytest

from elmo.errors import DataError
from elmo.probes.wsd import SenseMeans, measure
from elmo.probes.wsd_data import Instance, MarkedSense, read_semcor, read_wsd_sets


def test_semcor_is_read_with_all_keys_of_a_word(semcor):
    sentences = read_semcor(semcor)
    assert sentences[0].tokens == ["I", "took", "a", "bow", "."]
    assert sentences[0].senses == [MarkedSense(3, 4, ("bow%1:10:00::",))]
    assert sentences[3].senses == [
        MarkedSense(1, 2, ("run%2:38:00::", "run%2:32:03::")),
        MarkedSense(2, 4, ("run_on%2:38:00::",)),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not a marked sentence"),
        ('{"tokens": ["bow"]}', "senses"),
        ('{"tokens": ["bow"], "senses": [[0, 2, "bow", "NN", "bow%1:10:00::"]]}', "0 to 2 of 1"),
        ('{"tokens": ["bow"], "senses": [[0, 1, "bow", "NN", "bow%9:10:00::"]]}', "the sense key"),
        ('{"tokens": ["bow"], "senses": [[0, 1, "bow"]]}', "not enough values"),
        (
            '{"tokens": ["bow"], "senses": [[0, Infinity, "bow", "NN", "bow%1:10:00::"]]}',
            "infinity",
        ),
        ('{"tokens": "bow", "senses": []}', "tokens are 'bow'"),
    ],
)
def test_a_broken_line_of_semcor_is_named(semcor, line, told):
    semcor.write_text(semcor.read_text() + line + "\n")
    with pytest.raises(DataError, match=told) as raised:
        read_semcor(semcor)
    assert str(raised.value).startswith(f"{semcor}:5: ")


def test_a_semcor_without_senses_is_refused(semcor):
    semcor.write_text('{"tokens": ["bow"], "senses": []}\n')
    with pytest.raises(DataError, match="no senses"):
        read_semcor(semcor)


def test_the_sets_are_read_with_their_gold_keys(sets):
    [small] = read_wsd_sets(sets)
    assert small.name == "small"
    assert small.sentences[0].tokens == ["She", "took", "a", "bow", "curtain", "call", "."]
    assert small.sentences[0].instances == [
        Instance(3, 4, "bow", "n", frozenset({"bow%1:10:00::", "bow%1:04:01::"})),
        Instance(4, 6, "curtain_call", "n", frozenset({"curtain_call%1:10:00::"})),
    ]


def test_broken_sets_are_reported(sets, tmp_path):
    xml, gold = sets / "small" / "small.data.xml", sets / "small" / "small.gold.key.txt"
    whole = xml.read_text()
    xml.write_text(whole.replace("</text>", "<text>"))
    with pytest.raises(DataError, match=rf"{xml}:1[0-9]: not XML"):
        read_wsd_sets(sets)
    xml.write_text(whole.replace('"d0.s1.t0"', '"d0.s1.t9"'))
    with pytest.raises(DataError, match=r"the instance 'd0\.s1\.t9' has no gold key"):
        read_wsd_sets(sets)
    gold.write_text("d0.s0.t0 bow\n")
    with pytest.raises(DataError, match=rf"{gold}:1: 'd0\.s0\.t0 bow', expected an instance"):
        read_wsd_sets(sets)
    with pytest.raises(DataError, match="no such folder"):
        read_wsd_sets(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no set"):
        read_wsd_sets(tmp_path / "empty")


def test_a_sense_is_the_mean_of_its_occurrences(elmo, semcor):
    sentences = read_semcor(semcor)
    means = SenseMeans.of(elmo, sentences, "fresh")
    assert means.keys == [
        "bow%1:06:01::",
        "bow%1:10:00::",
        "run%2:32:03::",
        "run%2:38:00::",
        "run_on%2:38:00::",
    ]
    layers = [embedded.layers for embedded in elmo.embed_tokens([s.tokens for s in sentences])]
    mean = (layers[0][:, 3] + layers[1][:, 3]) / 2
    lengths = np.linalg.norm(mean, axis=1, keepdims=True)
    np.testing.assert_allclose(means.means[:, 1], mean / lengths, atol=1e-5)
    both = layers[3][:, 2:4].mean(1)
    lengths = np.linalg.norm(both, axis=1, keepdims=True)
    np.testing.assert_allclose(means.means[:, 4], both / lengths, atol=1e-5)


def test_the_nearest_sense_is_of_the_same_lemma_and_part_of_speech(elmo, semcor):
    means = SenseMeans.of(elmo, read_semcor(semcor), "fresh")
    [shot, took] = elmo.embed_tokens([["He", "shot", "a", "bow"], ["I", "took", "a", "bow", "."]])
    assert means.nearest("bow", "n", shot.layers[:, 3])[1:] == ["bow%1:06:01::"] * 2
    assert means.nearest("bow", "n", took.layers[:, 3])[1:] == ["bow%1:10:00::"] * 2
    assert means.nearest("bow", "v", took.layers[:, 3]) is None
    assert means.nearest("arrow", "n", took.layers[:, 3]) is None


@pytest.mark.parametrize("state", ["fresh", "warm"])
def test_f1_counts_what_is_right_among_given_and_asked(elmo, semcor, sets, wordnet, state):
    result = measure(elmo, semcor, sets, wordnet, state=state)
    assert result.columns == ["small", "ALL"]
    # WordNet's first sense of bow is wrong, of curtain_call right; there is none of unheard.
    precision, recall = 1 / 2, 1 / 3
    expected = 100 * 2 * precision * recall / (precision + recall)
    assert result.rows["first sense"] == pytest.approx([expected, expected])
    precision, recall = 2 / 2, 2 / 3
    expected = 100 * 2 * precision * recall / (precision + recall)
    assert result.rows["layer 2"] == pytest.approx([expected, expected])
    assert result.settings["of lemmas not in SemCor"] == 2
    assert result.settings["instances"] == 3
    assert json.loads(json.dumps(result.to_mapping()))["rows"]["layer 2"]["ALL"] == expected
