"""The words of an indexed text, compared with a linear scan."""

import numpy as np
import pytest

from elmo.search.words import IndexedWords, write_words

TEXT = "the Bow of THE ship , the bow ( a bow , a bowl ) of the Straße to STRASSE"
TOKENS = TEXT.split()


@pytest.mark.parametrize("n_at_once", [1, 4, 1000])
def test_every_word_is_found_where_it_stands(elmo, tmp_path, n_at_once):
    first_come = list(dict.fromkeys(TOKENS))
    word_of = np.array([first_come.index(word) for word in TOKENS])
    word_of.tofile(tmp_path / "word_of.bin")
    write_words(tmp_path, first_come, elmo.embedder, n_at_once)
    words = IndexedWords.open(tmp_path)
    assert sorted(words.spellings) == sorted(first_come)
    for word in [*first_come, "bows", "", "zz", "BOW", "strasse"]:
        expected = [k for k, token in enumerate(TOKENS) if token.casefold() == word.casefold()]
        assert words.rows_of(words.numbers(word)).tolist() == expected
    numbers = np.fromfile(tmp_path / "word_of.bin", np.int64)
    assert [words.spellings[number] for number in numbers.tolist()] == TOKENS
    layer_0 = np.fromfile(tmp_path / "words.bin", np.float16).reshape(len(first_come), -1)
    for spelling, vector in zip(words.spellings, layer_0, strict=True):
        expected = elmo.embed_tokens([[spelling]])[0].layers[0, 0, : len(vector)]
        assert vector == pytest.approx(expected, abs=1e-3)
