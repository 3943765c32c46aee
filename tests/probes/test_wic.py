import numpy as np
import pytest

from elmo.errors import DataError
from elmo.probes.wic import best_threshold, measure, read_pairs

PAIRS = [
    "bow\tN\t1-3\tthe bow broke\tI took a bow\tF",
    "bow\tN\t1-1\ta bow string\ta bow string\tT",
    "dog\tN\t0-1\tdogs run\tthe dogs\tT",
    "dog\tV\t1-1\tthey dog me\tthey dog you\tF",
]


def write(folder, name, rows):
    lines = [row.rsplit("\t", 1) for row in rows]
    (folder / f"{name}.data.txt").write_text("".join(f"{line}\n" for line, _ in lines))
    (folder / f"{name}.gold.txt").write_text("".join(f"{label}\n" for _, label in lines))
    return folder / f"{name}.data.txt"


def test_accuracy_is_of_the_threshold_that_is_best_for_the_training_pairs(elmo, tmp_path):
    path = write(tmp_path, "train", PAIRS)
    result = measure(elmo, path, path)
    rows = {name: numbers[0] for name, numbers in result.rows.items()}
    layers = ["layer 0", "layer 1", "layer 2", "average of layers"]
    assert list(rows) == ["majority label", "mean of words", *layers]
    assert rows["majority label"] == 50
    # The reference: the best of all thresholds that separate the pairs.
    for layer in range(3):
        cosines = []
        for pair in read_pairs(path):
            one, other = (
                elmo.embed_tokens([list(tokens)])[0].layers[layer, at]
                for tokens, at in zip(pair.sentences, pair.positions, strict=True)
            )
            cosines.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        labels = [False, True, True, False]
        best = max(
            sum(
                (cosine >= threshold) == label
                for cosine, label in zip(cosines, labels, strict=True)
            )
            for threshold in [-2, *(np.array(cosines) - 1e-6), *(np.array(cosines) + 1e-6)]
        )
        assert rows[f"layer {layer}"] == pytest.approx(25 * best)


@pytest.mark.parametrize(
    ("cosines", "labels", "threshold"),
    [
        ([0.1, 0.2, 0.8, 0.9], [False, False, True, True], 0.5),
        ([0.1, 0.2], [True, True], -np.inf),
        ([0.1, 0.2], [False, False], np.inf),
        ([0.5, 0.5, 0.5], [True, False, False], np.inf),  # equal cosines are not separated
    ],
)
def test_the_best_threshold_separates_most_pairs(cosines, labels, threshold):
    assert best_threshold(np.array(cosines), np.array(labels)) == pytest.approx(threshold)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("bow\tN\t1-3\tthe bow broke\tF", "expected word, part of speech"),
        ("bow\tN\t1\tthe bow\ta bow\tF", "expected word, part of speech"),
        ("bow\tN\t1-1\tthe bow\ta bow\tX", "the label 'X'"),
        ("bow\tN\t1-9\tthe bow\ta bow\tT", "positions 1-9"),
    ],
)
def test_a_broken_line_is_named(tmp_path, row, message):
    with pytest.raises(DataError, match=f"a.data.txt:2: .*{message}"):
        read_pairs(write(tmp_path, "a", [PAIRS[0], row]))


def test_blank_lines_count_in_line_numbers(tmp_path):
    path = write(tmp_path, "a", [PAIRS[0], "bow\tN\t1\tthe bow\ta bow\tF"])
    path.write_text(path.read_text().replace("\n", "\n\n", 1))
    with pytest.raises(DataError, match=r"a.data.txt:3: "):
        read_pairs(path)


def test_labels_must_match_the_pairs(tmp_path):
    path = write(tmp_path, "a", PAIRS)
    (tmp_path / "a.gold.txt").write_text("T\n")
    with pytest.raises(DataError, match=r"a.gold.txt: 1 labels for 4 pairs, expected at least"):
        read_pairs(path)
    with pytest.raises(DataError, match=r"expected a file such as train.data.txt"):
        read_pairs(tmp_path / "a.gold.txt")
