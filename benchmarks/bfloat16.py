"""How bfloat16 changes the English model: its vectors, its perplexity and two probes.

usage: python -m benchmarks.bfloat16 DATA [--json FILE]; DATA has pos/ud-ewt (docs/data.md). The
classifier of the part-of-speech probe is trained on the development set to save time.
"""

import argparse
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embed import TEXT
from benchmarks.measured import conditions, store
from elmo import Elmo
from elmo.files.text_files import read_blocks
from elmo.network import kernels
from elmo.probes import pos, senses
from elmo.text.tokenizer import split_text

N_SENTENCES = 300


def compare_vectors(exact: Elmo, rounded: Elmo, sentences: Sequence[list[str]]) -> dict[str, Any]:
    """Mean and largest relative difference between vectors of the same token, by layer."""
    by_layer: list[list[float]] = [[] for _ in range(exact.n_layers)]
    for one, other in zip(
        exact.embed_tokens(sentences), rounded.embed_tokens(sentences), strict=True
    ):
        difference = np.linalg.norm(one.layers - other.layers, axis=-1)
        relative = difference / np.linalg.norm(one.layers, axis=-1)  # (L+1, T)
        for layer, values in enumerate(relative):
            by_layer[layer] += values.tolist()
    return {
        "mean": [float(np.mean(values)) for values in by_layer],
        "largest": [max(values) for values in by_layer],
    }


def perplexity(elmo: Elmo, sentences: Sequence[list[str]]) -> dict[str, float]:
    """Perplexity over words, of each direction and of both combined."""
    scored = elmo.scorer.score(sentences)
    return {
        context: float(np.exp(-np.mean(np.concatenate([s.log_probs[context] for s in scored]))))
        for context in scored[0].log_probs
    }


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    lines = chain.from_iterable(islice(read_blocks([TEXT]), 40))
    split = (each.tokens for line in lines for each in split_text(line))
    sentences = list(islice(split, N_SENTENCES))
    models = {"float32": Elmo.load(), "bfloat16": Elmo.load(dtype="bfloat16")}
    found: dict[str, Any] = {
        "environment": conditions(),
        "multiplies": kernels.multiplies_bfloat16(),
        "n_tokens": sum(map(len, sentences)),
        "difference": compare_vectors(models["float32"], models["bfloat16"], sentences),
    }
    treebank = settings.data / "pos" / "ud-ewt"
    for name, elmo in models.items():
        tags = pos.measure(elmo, treebank / "dev.conllu.xz", treebank / "test.conllu.xz")
        found[name] = {
            "perplexity": perplexity(elmo, sentences),
            "pos": tags.to_mapping(),
            "senses": senses.measure(elmo).to_mapping(),
        }
    store(settings.json, "english", found)


if __name__ == "__main__":
    main()
