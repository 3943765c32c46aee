"""Minimal pairs: how often a model gives the acceptable sentence the higher probability.

In: a model with a softmax, and JSON lines with sentence_good and sentence_bad, as in BLiMP
(Warstadt et al. 2020). Out: accuracy of the forward and the backward language model and of both
combined, for each group of pairs and for all; the baselines are word frequency and length. A tie
counts half.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from elmo.api import Elmo
from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.probes.frequency import log_frequencies
from elmo.probes.result import ProbeResult
from elmo.tasks.metrics import percent
from elmo.text.tokenizer import tokenize

Group = Literal["paradigm", "phenomenon", "field"]
GROUP_KEYS: dict[Group, str] = {
    "paradigm": "UID",
    "phenomenon": "linguistics_term",
    "field": "field",
}
ALL = "all"
BOTH = "both"
TOLERANCE = 1e-6  # in nats; log-probabilities that differ by less are a tie


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """Two sentences that differ in acceptability."""

    good: tuple[str, ...]
    bad: tuple[str, ...]
    group: str


def measure(elmo: Elmo, path: Path, *, group: Group = "phenomenon") -> ProbeResult:
    """Compare the probabilities of both sentences of each pair."""
    pairs = read_pairs(path, group)
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        groups[pair.group].append(number)
    by_method = _prefer_good(elmo, pairs)
    return ProbeResult(
        "pairs",
        "minimal pairs, accuracy in %",
        list(by_method),
        {
            name: [
                percent(sum(scores[k] for k in numbers), len(numbers))
                for scores in by_method.values()
            ]
            for name, numbers in [*sorted(groups.items()), (ALL, list(range(len(pairs))))]
        },
        {"pairs": len(pairs), "grouped by": group},
    )


def read_pairs(path: Path, group: Group) -> list[MinimalPair]:
    """The pairs of a file of JSON lines (plain, .gz, .xz)."""
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON ({error})") from error
        sides = [_tokens(entry, key) for key in ("sentence_good", "sentence_bad")]
        if not all(sides):
            raise DataError(
                f"{path}:{number}: expected texts in sentence_good and sentence_bad, as in BLiMP"
            )
        pairs.append(MinimalPair(sides[0], sides[1], str(entry.get(GROUP_KEYS[group], ALL))))
    if not pairs:
        raise DataError(f"{path}: no pairs, expected one JSON object per line")
    return pairs


def prefer(good: float, bad: float) -> float:
    """1 if the good sentence has the higher score, 0 if the bad one, and 0.5 for a tie."""
    return 0.5 if abs(good - bad) < TOLERANCE else float(good > bad)


def _tokens(entry: object, key: str) -> tuple[str, ...]:
    text = entry.get(key) if isinstance(entry, Mapping) else None
    return tuple(tokenize(text).tokens) if isinstance(text, str) else ()


def _prefer_good(elmo: Elmo, pairs: Sequence[MinimalPair]) -> dict[str, list[float]]:
    """For each method, whether it prefers the good sentence of each pair."""
    sentences = list(dict.fromkeys(tokens for pair in pairs for tokens in (pair.good, pair.bad)))
    scores: defaultdict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
    for tokens, scored in zip(sentences, elmo.scorer.score(sentences), strict=True):
        directions = {name: scored.log_prob(name) for name in scored.boundary_log_probs}
        for name, log_prob in directions.items():
            scores[name][tokens] = log_prob
        if len(directions) > 1:
            scores[BOTH][tokens] = sum(directions.values())
        scores["frequency"][tokens] = float(np.sum(log_frequencies(elmo, tokens)))
        scores["shorter"][tokens] = -float(len(tokens))
    return {
        name: [prefer(by_tokens[pair.good], by_tokens[pair.bad]) for pair in pairs]
        for name, by_tokens in scores.items()
    }
