"""How well maps of words in context preserve neighbors: PCA, t-SNE and, if installed, UMAP.

usage: python -m benchmarks.word_maps [--rows 5000] [--model english] [--json FILE]
Embeds every 50th sentence of WordNet's examples (top layer) and prints, for each projection to two
dimensions, the CPU seconds and the trustworthiness: 1 if the ten nearest words on the map are also
nearest by their vectors.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, trustworthiness

from benchmarks.environment import describe_environment
from elmo import Elmo
from elmo.search.examples import default_sentences

Array = NDArray[Any]


def embed(model: str, n_rows: int) -> Array:
    """The vectors of the first `n_rows` words, scaled to length 1."""
    found = Elmo.load(model).stream_tokens(default_sentences()[::50])
    vectors = np.concatenate([embedded.vectors("top") for embedded in found])[:n_rows]
    scaled: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def projections() -> dict[str, Callable[[Array], Array]]:
    """The projections by name."""
    found: dict[str, Callable[[Array], Array]] = {
        "PCA": PCA(2).fit_transform,
        "t-SNE": TSNE(init="pca", metric="cosine", random_state=0).fit_transform,
    }
    try:
        from umap import UMAP
    except ModuleNotFoundError:
        return found
    return found | {"UMAP": UMAP(metric="cosine", random_state=0, n_jobs=1).fit_transform}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--model", default="english")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    maps = {}
    vectors = embed(arguments.model, arguments.rows)
    for name, project in projections().items():
        started_at = time.process_time()
        places = project(vectors)
        seconds = time.process_time() - started_at
        kept = trustworthiness(vectors[::5], places[::5], n_neighbors=10, metric="cosine")
        print(f"{name:6} {seconds:7.1f} s  trustworthiness {kept:.3f}", flush=True)
        maps[name] = {"seconds": seconds, "trustworthiness": float(kept)}
    if arguments.json is not None:
        report = {"rows": len(vectors), "environment": describe_environment(), "maps": maps}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
