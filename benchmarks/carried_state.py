"""Vectors with and without carried LSTM state: cosines of `state="fresh"`, `warm` and `carry`.

usage: python -m benchmarks.carried_state [MODEL SENTENCES.txt] [--batch 32] [--most 500]
Without arguments: both golden sets of ../shared, in their own batches of three. SENTENCES.txt has a
sentence per line, tokens separated by spaces, and may be an .xz file. Prints mean cosines: of whole
vectors by layer, and of each direction's half by the number of tokens read, as state matters most
at the start.
"""

import argparse
import json
import lzma
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo import Elmo
from elmo.api import State

Array = NDArray[np.float32]
GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
GOLDEN_SENTENCES = {"bilm-tf": "lm_embeddings_sentences.json", "allennlp": "sentences.json"}
# Ranges of the number of tokens of a sentence that a direction has read, both ends included.
READ = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20), (21, 10_000))


def cosines(one: Array, other: Array) -> Array:
    """Cosines of pairs of vectors: (..., D), (..., D) -> (...)."""
    product = np.einsum("...d,...d->...", one, other)
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    found: Array = np.divide(product, lengths, out=np.ones_like(product), where=lengths > 0)
    return found


def embed(elmo: Elmo, sentences: Sequence[list[str]], state: State, batch_size: int) -> list[Array]:
    """All layers of each sentence."""
    found = elmo.embed_tokens(sentences, state=state, batch_size=batch_size)
    return [np.asarray(embedded.layers, dtype=np.float32) for embedded in found]


def compare(one: Sequence[Array], other: Sequence[Array]) -> Array:
    """Mean cosine of whole vectors by layer, (L+1,)."""
    by_token = [cosines(x, y) for x, y in zip(one, other, strict=True)]
    means: Array = np.concatenate(by_token, axis=1).mean(1)
    return means


def compare_by_distance(one: Sequence[Array], other: Sequence[Array]) -> list[tuple[str, Array]]:
    """Mean cosine of a direction's half by the number of tokens it has read, (L+1,) each."""
    found, n_read = [], []
    for x, y in zip(one, other, strict=True):
        halves = zip(np.split(x, 2, axis=-1), np.split(y, 2, axis=-1), strict=True)
        forward, backward = (cosines(*half) for half in halves)  # (L+1, T)
        found += [forward, backward[:, ::-1]]
        n_read += [np.arange(1, x.shape[1] + 1)] * 2
    values, distance = np.concatenate(found, axis=1), np.concatenate(n_read)
    rows = []
    for first, last in READ:
        some = (distance >= first) & (distance <= last)
        if some.any():
            name = (
                str(first) if first == last else f"{first}-{last}" if last < 1000 else f"{first}+"
            )
            rows.append((name, values[:, some].mean(1)))
    return rows


def report(name: str, elmo: Elmo, sentences: Sequence[list[str]], batch_size: int) -> None:
    """Print the table of one model and text."""
    sentences = [tokens for tokens in sentences if tokens]
    order = np.random.default_rng(0).permutation(len(sentences))
    stateless = embed(elmo, sentences, "fresh", batch_size)
    carried = embed(elmo, sentences, "carry", batch_size)
    shuffled = embed(elmo, [sentences[k] for k in order], "carry", batch_size)
    carried_otherwise: list[Array] = [shuffled[k] for k in np.argsort(order)]

    n_tokens = sum(map(len, sentences))
    print(f"\n{name}: {len(sentences)} sentences, {n_tokens} tokens, batches of {batch_size}")
    print(f"{'mean cosine':34}" + "".join(f"  layer {j}" for j in range(elmo.n_layers)))
    rows = [
        ("stateless : carried", compare(stateless, carried)),
        ("carried : carried, other order", compare(carried, carried_otherwise)),
        ("warm : carried", compare(embed(elmo, sentences, "warm", batch_size), carried)),
        *(
            (f"stateless : carried, {read} read", values)
            for read, values in compare_by_distance(stateless, carried)
        ),
    ]
    for label, values in rows:
        print(f"{label:34}" + "".join(f"  {value:7.4f}" for value in values))


def read_sentences(path: Path, most: int) -> list[list[str]]:
    """The first lines of a file, as tokens."""
    open_text = lzma.open if path.suffix == ".xz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        return [line.split() for line in islice(lines, most)]


def main() -> None:
    """Measure the golden sets, or the given model on the given text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("sentences", nargs="?", type=Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--most", type=int, default=500)
    given = parser.parse_args()
    if given.model is not None and given.sentences is not None:
        sentences = read_sentences(given.sentences, given.most)
        report(
            f"{given.model.name} on {given.sentences.name}",
            Elmo.load(given.model),
            sentences,
            given.batch,
        )
        return
    for name, file in GOLDEN_SENTENCES.items():
        lists = json.loads((GOLDEN / name / file).read_text(encoding="utf-8"))
        in_batches = chain.from_iterable(zip(*lists, strict=True))
        tokens = [sentence.split() for sentence in in_batches]
        report(f"golden {name}", Elmo.load(GOLDEN / name / "lm_weights.hdf5"), tokens, 3)


if __name__ == "__main__":
    main()
