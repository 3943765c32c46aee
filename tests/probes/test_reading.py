import numpy as np
import pytest

from elmo.errors import DataError
from elmo.probes.reading import cross_validate, measure, read_sentences

WORDS = ["the", "dog", "runs", "a", "archer", "dogs", "run", "xyzzy", "arrows,"]


def write(path, sentences):
    lines = ["sentence\tword\ttime"]
    for number, words in enumerate(sentences):
        lines += [f"{number}\t{word}\t{time}" for word, time in words]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    return [[str(word) for word in rng.choice(WORDS, size=8)] for _ in range(60)]


def test_times_that_are_surprisal_are_explained_by_it(language_model, drawn, tmp_path):
    timed = []
    for words in drawn:
        tokens = [[word.rstrip(","), *([","] if word.endswith(",") else [])] for word in words]
        scored = language_model.score_tokens([[token for each in tokens for token in each]])[0]
        bits = iter(scored.sentences[0].surprisal("forward").tolist())
        sums = [sum(next(bits) for _ in each) for each in tokens]
        timed.append(
            [(word, 300 + 7 * len(word) + 20 * bit) for word, bit in zip(words, sums, strict=True)]
        )
    result = measure(language_model, write(tmp_path / "times.tsv", timed))
    assert list(result.rows) == [
        "length and frequency",
        "+ forward surprisal",
        "+ backward surprisal",
        "+ combined surprisal",
    ]
    r2, gain, slope = result.rows["+ forward surprisal"]
    assert r2 == pytest.approx(1, abs=1e-6)
    assert slope == pytest.approx(20, rel=1e-3)
    assert gain > result.rows["+ backward surprisal"][1]
    assert result.rows["length and frequency"][1:] == [None, None]
    assert result.settings["words"] == 60 * 7  # without first words


def test_noise_is_not_explained_by_surprisal(language_model, drawn, tmp_path):
    rng = np.random.default_rng(1)
    timed = [[(word, rng.normal(300, 50)) for word in words] for words in drawn]
    rows = measure(language_model, write(tmp_path / "times.tsv", timed)).rows
    assert all(abs(numbers[1]) < 0.02 for name, numbers in rows.items() if name[0] == "+")
    assert all(numbers[0] < 0.05 for numbers in rows.values())


def test_a_regression_is_measured_on_the_folds_that_it_has_not_seen():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 1))
    y = 3 * x[:, 0] + rng.normal(size=40)
    folds = np.arange(40) % 4
    errors, likelihoods = [], []
    for fold in range(4):
        slope, intercept = np.polyfit(x[folds != fold, 0], y[folds != fold], 1)
        seen = y[folds != fold] - slope * x[folds != fold, 0] - intercept
        new = y[folds == fold] - slope * x[folds == fold, 0] - intercept
        variance = np.mean(seen**2)
        errors.extend(new**2)
        likelihoods.extend(-0.5 * np.log(2 * np.pi * variance) - new**2 / (2 * variance))
    found = cross_validate(x, y, folds)
    assert found.r2 == pytest.approx(1 - np.sum(errors) / np.sum((y - y.mean()) ** 2))
    assert found.log_likelihood == pytest.approx(np.mean(likelihoods))


def test_the_first_column_may_be_empty(tmp_path):
    lines = ["\tsentence\tword\ttime"]
    lines += [f"\t{k // 2}\tthe\t{300 + k}" for k in range(24)]
    (tmp_path / "times.tsv").write_text("\n".join(lines) + "\n")
    sentences = read_sentences(tmp_path / "times.tsv")
    assert [len(words) for words in sentences] == [2] * 12
    assert sentences[1][0].time == 302


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("word\ttime\nthe\t3\n", ":1: the columns word, time"),
        ("", ":1: the columns"),
        ("sentence\tword\ttime\n1\tthe\tlong\n", ":2: .*the time 'long'"),
        ("sentence\tword\ttime\n1\t \t300\n", ":2: the word ''"),
        ("sentence\tword\ttime\n1\tthe\n", ":2: .*the time ''"),
        ("sentence\tword\ttime\n1\tthe\t300\n1\tdog\t300\n", "1 sentences, expected at least 10"),
    ],
)
def test_broken_files_are_named(tmp_path, content, message):
    (tmp_path / "times.tsv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_sentences(tmp_path / "times.tsv")
