"""Time of the sentence splitter for repeated characters and pairs: is it linear in the length?

usage: python -m benchmarks.sentence_splitter [--length 1000] [--json OUT.json]
Splits every pair of punctuation marks, spaces and letters, repeated to a length and to four times
that length, and then 900 kB of the slowest pairs. Prints CPU seconds; a ratio of 4 is linear.
"""

import argparse
import json
import string
import time
from itertools import product
from pathlib import Path

from elmo.text.tokenizer import split_text

UNITS = [
    *string.punctuation,
    *"’‘“”«»‹›„‚…–—¿¡。！？、，「」『』（）؟।॥։፧።·•†‡§¶°′″",  # noqa: RUF001
    *" \t\n\r\x0b\x85\u2028\xa0\u3000\u200b\u0301aA1é日",
    ". ",
    "a. ",
    '." ',
]
REQUEST_CHARACTERS = 900_000


def measure(text: str) -> float:
    """CPU seconds to split a text."""
    started_at = time.thread_time()
    split_text(text)
    return time.thread_time() - started_at


def repeat(unit: str, length: int) -> str:
    """A unit repeated to a length."""
    return (unit * (length // len(unit) + 1))[:length]


def main() -> None:
    """Measure all pairs, then a whole request of the slowest."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    pairs = sorted({one + two for one, two in product(UNITS, UNITS)})
    seconds = {}
    for pair in pairs:
        short, long = (repeat(pair, n) for n in (chosen.length, 4 * chosen.length))
        seconds[pair] = (measure(short), measure(long))
    slowest = sorted(pairs, key=lambda pair: -seconds[pair][1])[:10]
    ratios = sorted(long / short for short, long in seconds.values() if long > 0.002)
    results = {
        "pairs": len(pairs),
        "lengths": [chosen.length, 4 * chosen.length],
        "ratio_median": round(ratios[len(ratios) // 2], 2),
        "ratio_p99": round(ratios[int(len(ratios) * 0.99)], 2),
        "microseconds_per_character_worst": round(
            1e6 * seconds[slowest[0]][1] / (4 * chosen.length), 2
        ),
        "seconds_of_900_kB": {
            pair: round(measure(repeat(pair, REQUEST_CHARACTERS)), 2)
            for pair in [*slowest, "'", '"', "The dog ran. "]
        },
    }
    print(json.dumps(results, ensure_ascii=False, indent=1))
    if chosen.json:
        text = json.dumps(results, ensure_ascii=False, indent=1)
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
