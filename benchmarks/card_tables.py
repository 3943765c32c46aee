"""Blocks of the English model's pages, from docs/models/english.

`python -m benchmarks.english_card` writes card.json; `python -m benchmarks.english_text` counts the
training text, and text.json is its report.
"""

import json
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.blocks import block, table
from benchmarks.english_card import TEXTS
from benchmarks.measured import ROOT, load
from elmo.probes.result import ProbeResult

FOLDER = ROOT / "docs" / "models" / "english"
CARD = FOLDER / "card.json"
TEXT = FOLDER / "text.json"  # by benchmarks/english_text.py
METRICS = FOLDER / "metrics.jsonl"
N_NEARBY = 100  # lines of METRICS
# Probes of docs/probes.md: the command, its data, a column of its table, published results.
PROBES = (
    (
        "pos",
        "UD EWT, Penn tags",
        "accuracy",
        "97.3 and 96.8 for layers 1 and 2, Penn Treebank (a)",
    ),
    (
        "structure",
        "UD EWT, UUAS",
        "UUAS",
        "48.9 neighboring words; 26.8 and 77.0 for layers 0 and 1, Penn Treebank (b)",
    ),
    (
        "structure",
        "UD EWT, DSpr.",
        "DSpr.",
        "58 neighboring words; 44 and 83 for layers 0 and 1, Penn Treebank (b)",
    ),
    (
        "wsd",
        "all five sets, F1",
        "ALL",
        "65.9 first sense; 67.4 and 69.0 for layers 1 and 2 (a)",
    ),
    ("senses", "WordNet's examples", "WordNet's examples", ""),
)


def _card(name: str) -> dict[str, Any]:
    found: dict[str, Any] = load(CARD)[name]
    return found


def _megabytes() -> str:
    return f"{_card('info')['bytes'] / 1e6:.0f} MB"


@block
def readme_model() -> str:
    """Size of the model on disk."""
    return _megabytes()


@block
def card_parameters() -> str:
    """Parameters of the biLM."""
    return f"{_card('info')['n_parameters'] / 1e6:.1f}M"


@block
def card_facts() -> str:
    """Network, vocabulary, sizes and the time to open the model."""
    info = _card("info")
    n_filters = sum(n for _, n in info["char_cnn.filters"])
    network = (
        f"character CNN ({n_filters} filters, highway layers: {info['char_cnn.n_highways']}); "
        f"{info['lstm.n_layers']} LSTM layers of {info['lstm.dim']:,} cells with projection "
        f"{info['lstm.projection_dim']} in each direction; {info['n_layers']} layers of "
        f"{info['output_dim']} dimensions per token"
    )
    return table(
        ["", ""],
        ["network", network],
        ["parameters", f"{card_parameters()}, without the softmax"],
        ["vocabulary", f"{info['n_output_words']:,} words that can be predicted; any can be read"],
        ["on disk", f"{_megabytes()}, float16; float32 in memory"],
        ["time to open", f"{_card('open')['median']:.1f} s after importing torch, with a sentence"],
    )


@block
def card_perplexity() -> str:
    """Perplexity and bits per character on the held-out text of each source."""
    perplexities = ("mean", "forward", "backward")
    rows = [["held-out text", "tokens", *perplexities, "bits per character", "unknown words"]]
    for text in TEXTS:
        found = _card(f"perplexity/{text}")
        row = [text, f"{found['tokens']:,}", *(f"{found[name]:.1f}" for name in perplexities)]
        rows.append([*row, f"{found['bits_per_character']:.2f}", f"{found['unknown_rate']:.1%}"])
    return table(*rows)


@block
def card_run() -> str:
    """Length of the run that trained the model."""
    lines = METRICS.read_text(encoding="utf-8").splitlines()
    steps = [row for row in map(json.loads, lines) if "tokens_per_second" in row]
    # The clock does not stop while a run is paused or other work takes its cores, so time is tokens
    # over the median speed of nearby steps.
    seconds, n_before = 0.0, 0
    for first in range(0, len(steps), N_NEARBY):
        nearby = steps[first : first + N_NEARBY]
        n_tokens = nearby[-1]["tokens"] - n_before
        seconds += n_tokens / median(row["tokens_per_second"] for row in nearby)
        n_before = nearby[-1]["tokens"]
    return (
        f"{steps[-1]['step']:,} steps, {n_before / 1e6:.1f}M tokens ({steps[-1]['epoch']:.2f} "
        f"epochs), {seconds / 3600:.1f} hours of two cores"
    )


def _sizes_of_text() -> dict[str, Counter[str]]:
    """Documents and words of the training text by source, with those that were left out."""
    sums: dict[str, Counter[str]] = {}
    for file in json.loads(TEXT.read_text(encoding="utf-8")):
        source = sums.setdefault(file["file"].split("/")[0], Counter())
        source["excluded"] += file["documents_excluded"].get("any", 0)
        source.update({name: file[name] for name in ("documents", "words", "words_excluded")})
    return sums | {"all": sum(sums.values(), Counter())}


@block
def card_words() -> str:
    """Words of the training text."""
    found = _sizes_of_text()["all"]
    return f"{(found['words'] - found['words_excluded']) / 1e6:.1f}M words"


@block
def card_text() -> str:
    """Size of the training text by source, and what was left out of it."""
    rows = [
        [
            name,
            f"{found['documents'] - found['excluded']:,}",
            f"{(found['words'] - found['words_excluded']) / 1e6:.1f}M",
            f"{found['excluded']:,}",
            f"{found['words_excluded'] / 1e6:.2f}M",
        ]
        for name, found in _sizes_of_text().items()
    ]
    return table(["source", "documents", "words", "documents left out", "words left out"], *rows)


@block
def card_pos() -> str:
    """Results of the part-of-speech probe."""
    return _probe("pos")


@block
def card_wsd() -> str:
    """Results of the word sense disambiguation probe."""
    return _probe("wsd")


@block
def card_first_sense() -> str:
    """The top layer compared with WordNet's first sense."""
    rows = _card("probe/wsd")["rows"]
    return f"{rows['layer 2']['ALL']:.1f} against {rows['first sense']['ALL']:.1f}"


@block
def card_senses() -> str:
    """Results of the probe for nearest neighbors of the same sense."""
    return _probe("senses")


def _probe(name: str) -> str:
    """The table that `elmo probe` printed."""
    found = _card(f"probe/{name}")
    rows: Mapping[str, dict[str, float]] = found["rows"]
    result = ProbeResult(
        found["probe"],
        found["metric"],
        columns=list(next(iter(rows.values()))),
        rows={row: list(numbers.values()) for row, numbers in rows.items()},
        settings={},
    )
    return result.to_markdown().rstrip()


@block
def card_structure() -> str:
    """Results of the probe for syntax trees."""
    return _probe("structure")


@block
def card_oov() -> str:
    """Results of the probe for unseen words."""
    return _probe("oov")


@block
def card_bows() -> str:
    """How often the nearest neighbor in the demo has the same sense."""
    _, first, top = _card("bows")["layers"]
    return f"{top} have the same sense by the top layer, {first} by layer 1"


@block
def probe_results() -> str:
    """Results of all probes next to published numbers."""
    rows = []
    for name, data, column, published in PROBES:
        numbers = {row: each[column] for row, each in _card(f"probe/{name}")["rows"].items()}
        layers = [f"{numbers.pop(f'layer {n}'):.1f}" for n in range(3)]
        baselines = ", ".join(f"{number:.1f} {row}" for row, number in numbers.items())
        rows.append([f"`{name}`, {data}", baselines, *layers, published])
    return table(["probe, data", "baselines", "layer 0", "layer 1", "layer 2", "published"], *rows)
