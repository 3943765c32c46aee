"""Reading times: what surprisal explains beyond the length and frequency of words.

In: a model with a softmax, and a tab-separated file with the columns sentence, word and time (in
milliseconds, such as the mean over readers), one word per line, in order. Out: for a linear
regression on length and log frequency of a word and the one before it, and for the same with
surprisal: R2 and the gain in log-likelihood per word over the baseline, both on held-out sentences
(10 folds), and the slope in milliseconds per bit. Levy (2008), Goodkind and Bicknell (2018).
Shapes: N words, P predictors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo
from elmo.errors import DataError
from elmo.files.text_files import read_raw_lines
from elmo.probes.frequency import log_frequencies
from elmo.probes.result import ProbeResult
from elmo.text.tokenizer import tokenize

COLUMNS = ("sentence", "word", "time")
N_FOLDS = 10
BASELINE = "length and frequency"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReadWord:
    """A word as it was shown, and how long it was read."""

    sentence: str
    word: str
    time: float
    tokens: tuple[str, ...]


def measure(elmo: Elmo, path: Path) -> ProbeResult:
    """Compare regressions of reading times with and without surprisal."""
    sentences = read_sentences(path)
    times = np.concatenate([[word.time for word in words[1:]] for words in sentences])
    folds = np.concatenate(
        [np.full(len(words) - 1, k % N_FOLDS) for k, words in enumerate(sentences)]
    )
    controls = _with_previous([_controls(elmo, words) for words in sentences])
    surprisals = _surprisals(elmo, sentences)
    baseline = cross_validate(controls, times, folds)
    rows: dict[str, list[float | None]] = {BASELINE: [baseline.r2, None, None]}
    for name, values in surprisals.items():
        predictors = np.hstack([controls, _with_previous([each[:, None] for each in values])])
        full = cross_validate(predictors, times, folds)
        slope = _fit(predictors, times)[1 + controls.shape[1]]
        rows[f"+ {name} surprisal"] = [
            full.r2,
            full.log_likelihood - baseline.log_likelihood,
            slope,
        ]
    return ProbeResult(
        "reading",
        "reading times",
        ("R2", "log-likelihood per word", "ms per bit"),
        rows,
        {"sentences": len(sentences), "words": len(times), "folds": N_FOLDS},
        n_decimals=4,
    )


def read_sentences(path: Path) -> list[list[ReadWord]]:
    """The sentences of a file that have at least two words."""
    # Not stripped: the first column may be empty.
    lines = enumerate((line.rstrip("\r\n") for line in read_raw_lines(path)), start=1)
    header = next(lines, (1, ""))[1].split("\t")
    if not set(COLUMNS) <= set(header):
        raise DataError(
            f"{path}:1: the columns {', '.join(header)[:80]}, expected {', '.join(COLUMNS)}"
        )
    words = [
        _read_word(dict(zip(header, line.split("\t"), strict=False)), f"{path}:{number}")
        for number, line in lines
        if line.strip()
    ]
    grouped = [list(group) for _, group in groupby(words, key=lambda word: word.sentence)]
    sentences = [group for group in grouped if len(group) > 1]
    if len(sentences) < N_FOLDS:
        raise DataError(f"{path}: {len(sentences)} sentences, expected at least {N_FOLDS}")
    return sentences


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How well a regression predicts the held-out folds."""

    r2: float
    log_likelihood: float  # per word, in nats


def cross_validate(predictors: Floats, times: Floats, folds: NDArray[np.int64]) -> HeldOut:
    """Fit a linear regression without each fold, and predict the fold: (N, P), (N,), (N,)."""
    errors = np.empty_like(times)
    log_likelihoods = np.empty_like(times)
    for fold in np.unique(folds):
        is_test = folds == fold
        weights = _fit(predictors[~is_test], times[~is_test])
        residuals = times[~is_test] - _design(predictors[~is_test]) @ weights
        variance = float(np.mean(residuals**2))
        errors[is_test] = times[is_test] - _design(predictors[is_test]) @ weights
        log_likelihoods[is_test] = -0.5 * (
            np.log(2 * np.pi * variance) + errors[is_test] ** 2 / variance
        )
    r2 = 1 - float(np.sum(errors**2) / np.sum((times - times.mean()) ** 2))
    return HeldOut(r2, float(log_likelihoods.mean()))


def _fit(predictors: Floats, times: Floats) -> Floats:
    """The weights of a least-squares regression, the intercept first, (1 + P,)."""
    return np.asarray(np.linalg.lstsq(_design(predictors), times, rcond=None)[0], dtype=np.float64)


def _design(predictors: Floats) -> Floats:
    return np.hstack([np.ones((len(predictors), 1)), predictors])


def _read_word(fields: Mapping[str, str], where: str) -> ReadWord:
    word = fields.get("word", "").strip()
    try:
        time = float(fields.get("time", ""))
    except ValueError:
        time = np.nan
    tokens = tuple(tokenize(word).tokens)
    if not tokens or not np.isfinite(time):
        raise DataError(
            f"{where}: the word {word!r} and the time {fields.get('time', '')!r}, expected a word "
            "and milliseconds"
        )
    return ReadWord(fields.get("sentence", ""), word, time, tokens)


def _controls(elmo: Elmo, words: Sequence[ReadWord]) -> Floats:
    """Length of each word and log frequency of its least frequent token, (T, 2)."""
    return np.array(
        [[len(word.word), float(log_frequencies(elmo, word.tokens).min())] for word in words]
    )


def _surprisals(elmo: Elmo, sentences: Sequence[Sequence[ReadWord]]) -> dict[str, list[Floats]]:
    """The surprisal of each word in bits, summed over its tokens, by context."""
    tokens = [[token for word in words for token in word.tokens] for words in sentences]
    found: dict[str, list[Floats]] = {}
    for words, scored in zip(sentences, elmo.scorer.score(tokens), strict=True):
        starts = np.cumsum([0, *(len(word.tokens) for word in words[:-1])])
        for context in scored.log_probs:
            bits = scored.surprisal(context).astype(np.float64)
            found.setdefault(context, []).append(np.add.reduceat(bits, starts))
    return found


def _with_previous(sentences: Sequence[Floats]) -> Floats:
    """Predictors (T, P) of each word and of the one before it, (N, 2P), without first words."""
    return np.concatenate([np.hstack([each[1:], each[:-1]]) for each in sentences])
