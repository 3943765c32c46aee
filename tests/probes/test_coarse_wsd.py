import numpy as np
import pytest

from elmo.errors import DataError
from elmo.probes.coarse_wsd import measure, nearest_average, read_sentences

TRAIN = ["1\ta bow broke", "1\tthe bow broke", "3\tI took a bow", "2\the took bows"]
GOLD = ["0", "0", "1", "1"]


@pytest.fixture
def folder(tmp_path):
    for word in ("bow", "spring"):
        (tmp_path / word).mkdir()
        for part in ("train", "test"):
            (tmp_path / word / f"{part}.data.txt").write_text("\n".join(TRAIN))
            (tmp_path / word / f"{part}.gold.txt").write_text("\n".join(GOLD))
    return tmp_path


def test_the_class_with_the_nearest_average_is_taken(elmo, folder):
    result = measure(elmo, folder)
    assert result.settings == {
        "state": "fresh",
        "words": 2,
        "training sentences": 8,
        "test sentences": 8,
    }
    assert result.rows["most frequent class"] == [50, 50]
    sentences = read_sentences(folder / "bow", "train")
    for layer in range(3):
        vectors = np.stack(
            [elmo.embed_tokens([list(s.tokens)])[0].layers[layer, s.position] for s in sentences]
        )
        averages = np.stack([vectors[:2].mean(0), vectors[2:].mean(0)])
        cosines = vectors @ averages.T / np.linalg.norm(averages, axis=1)
        n_correct = sum(
            str(k) == label for k, label in zip(cosines.argmax(1).tolist(), GOLD, strict=True)
        )
        assert result.rows[f"layer {layer}"] == pytest.approx([25 * n_correct] * 2)


def test_classes_differ_by_direction_not_length():
    train = np.array([[1.0, 0.0], [3.0, 0.2], [0.0, 1.0]])
    assert nearest_average(train, ["a", "a", "b"], np.array([[9.0, 1.0], [0.1, 0.2]])) == ["a", "b"]


def test_broken_data_is_named(folder, tmp_path):
    (folder / "bow" / "test.data.txt").write_text("9\ta bow\n" * 4)
    with pytest.raises(DataError, match=r"test.data.txt:1: .*expected position<TAB>sentence"):
        read_sentences(folder / "bow", "test")
    (folder / "bow" / "test.data.txt").write_text("\n\n" + "9\ta bow\n" * 4)
    with pytest.raises(DataError, match=r"test.data.txt:3: "):
        read_sentences(folder / "bow", "test")
    (folder / "bow" / "test.gold.txt").write_text("0\n")
    with pytest.raises(DataError, match="4 sentences and 1 labels"):
        read_sentences(folder / "bow", "test")


def test_a_folder_without_words_is_refused(elmo, tmp_path):
    with pytest.raises(DataError, match="no words"):
        measure(elmo, tmp_path)
