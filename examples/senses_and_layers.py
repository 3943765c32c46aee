"""Plot the senses of a word layer by layer, and the surprisal of the words of a sentence."""

# %% [markdown]
# # Senses and layers
#
# One word, sixteen sentences, four senses: how each layer separates them; and the surprisal of the
# words of a sentence. Cells begin with `# %%`: Jupyter (with Jupytext), VS Code and Spyder open
# this file as a notebook. As a script it draws three plots:
#
#     python examples/senses_and_layers.py [--model MODEL] [--out docs/images]

# %%
import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from elmo import Elmo
from elmo.inference import Embedded

WORD = "bow"
SENTENCES = {
    "theater": [
        "I took a bow.",
        "The actors took a bow at the end.",
        "The singer took another bow and the crowd cheered.",
        "She smiled at the audience and took a deep bow.",
    ],
    "archery": [
        "He was wielding a bow and arrow.",
        "She drew her bow and shot an arrow.",
        "The hunter carried a bow and arrows.",
        "He aimed his bow at a deer and shot.",
    ],
    "music": [
        "The violinist raised her bow and played.",
        "He drew the bow across the strings of the violin.",
        "Her bow slid across the strings of the cello.",
        "The violin and the bow lay in the case.",
    ],
    "ship": [
        "We stood at the bow of the ship.",
        "A wave broke over the bow of the boat.",
        "The captain walked to the bow and watched the sea.",
        "The bow of the ferry cut through the water.",
    ],
}
SENSES = [sense for sense, sentences in SENTENCES.items() for _ in sentences]
# Colors for the color-blind (Okabe and Ito), each with a marker.
LOOKS = {
    "theater": ("#0072b2", "o"),
    "archery": ("#d55e00", "s"),
    "music": ("#009e73", "^"),
    "ship": ("#cc79a7", "D"),
}

# %% [markdown]
# ## The word's vectors
#
# All layers of "bow" in every sentence: (layers, sentences, dimensions). Layer 0 depends on the
# characters alone, the others on the whole sentence.

# %%
parser = argparse.ArgumentParser(description="Draw the senses and layers of a word.")
parser.add_argument("--model", help="a model folder or file; else the package's English model")
parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of the plots")
chosen, _ = parser.parse_known_args()  # a notebook's process has arguments of its own
elmo = Elmo.load(chosen.model) if chosen.model else Elmo.load()


def vectors_of_the_word(elmo: Elmo) -> np.ndarray:
    """All layers of the word in every sentence, (L+1, 16, D)."""
    embedded = elmo.embed([text for sentences in SENTENCES.values() for text in sentences])
    return np.stack([layers_of_the_word(sentence) for sentence in embedded], axis=1)


def layers_of_the_word(sentence: Embedded) -> np.ndarray:
    """All layers of the word in one sentence, (L+1, D)."""
    return sentence.layers[:, sentence.tokens.index(WORD)]


def save(figure: Figure, name: str) -> None:
    """Save a plot."""
    chosen.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen.out / f"{name}.png", dpi=100)


layers = vectors_of_the_word(elmo)

# %% [markdown]
# ## Senses, layer by layer
#
# The first two principal components of the sixteen vectors of each layer (PCA, by an SVD of the
# centered vectors), with the share of variance that they explain.


# %%
def first_components(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """The first two principal components, (16, 2), and their share of the variance."""
    centered = vectors - vectors.mean(0)
    left, scale, _ = np.linalg.svd(centered, full_matrices=False)
    total = (scale**2).sum()
    share = (scale[:2] ** 2).sum() / total if total > 1e-9 else 1.0
    return left[:, :2] * scale[:2], float(share)


def draw_senses(layers: np.ndarray) -> Figure:
    """A scatter plot per layer, a marker per sentence, a color per sense."""
    figure, squares = plt.subplots(1, len(layers), figsize=(4 * len(layers), 4))
    for number, (square, vectors) in enumerate(zip(squares, layers, strict=True)):
        points, share = first_components(vectors)
        for sense, (color, mark) in LOOKS.items():
            chosen = points[[name == sense for name in SENSES]]
            square.scatter(*chosen.T, c=color, marker=mark, label=sense, alpha=0.8)
        is_one_point = np.ptp(points, axis=0).max() < 1e-4
        square.set_title(f"layer {number}" + (": one point" if is_one_point else f" ({share:.0%})"))
        square.set_xticks([])
        square.set_yticks([])
        if is_one_point:  # else the axes would enlarge rounding errors
            square.set(xlim=(-1, 1), ylim=(-1, 1))
    squares[-1].legend()
    figure.tight_layout()
    return figure


save(draw_senses(layers), "senses-by-layer")

# %% [markdown]
# ## Similarity
#
# The cosine of every pair of occurrences. Blocks on the diagonal are senses.


# %%
def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosine of each pair of rows."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def draw_similarity(layers: np.ndarray) -> Figure:
    """A heat map per layer."""
    figure, squares = plt.subplots(
        1, len(layers), figsize=(4 * len(layers), 4.4), layout="constrained"
    )
    n_each = [len(sentences) for sentences in SENTENCES.values()]
    ends = np.cumsum([0, *n_each])
    for number, (square, vectors) in enumerate(zip(squares, layers, strict=True)):
        shown = square.imshow(cosines(vectors), vmin=-0.2, vmax=1, cmap="cividis")
        square.set_title(f"layer {number}")
        middles = (ends[:-1] + ends[1:] - 1) / 2
        square.set_xticks(middles, list(SENTENCES), rotation=30)
        square.set_yticks(middles, list(SENTENCES) if number == 0 else [])
        for end in ends[1:-1]:
            square.axhline(end - 0.5, color="white", linewidth=0.8)
            square.axvline(end - 0.5, color="white", linewidth=0.8)
    figure.colorbar(shown, ax=squares, label="cosine", shrink=0.8)
    return figure


save(draw_similarity(layers), "similarity-by-layer")

# %% [markdown]
# ## Surprisal
#
# The surprisal of each word of a sentence in bits, given the words before it, after it, and both. A
# word outside the vocabulary has a question mark.

# %%
SURPRISING = "The violinist drew her bow across the ship."


def draw_surprisal(elmo: Elmo, text: str = SURPRISING) -> Figure:
    """Bars for each word, one per context."""
    sentence = elmo.score(text).sentences[0]
    figure, chart = plt.subplots(figsize=(9, 3.4))
    contexts = list(sentence.log_probs)
    width = 0.8 / len(contexts)
    colors = [color for color, _ in LOOKS.values()]
    for k, context in enumerate(contexts):
        positions = np.arange(len(sentence.tokens)) + (k - (len(contexts) - 1) / 2) * width
        chart.bar(positions, sentence.surprisal(context), width, label=context, color=colors[k])
    known = zip(sentence.tokens, sentence.is_known, strict=True)
    names = [word if is_known else f"{word} ?" for word, is_known in known]
    chart.set_xticks(range(len(names)), names)
    chart.set_ylabel("surprisal in bits")
    chart.legend()
    figure.tight_layout()
    return figure


save(draw_surprisal(elmo), "surprisal")

# %% [markdown]
# ## In a number
#
# How many occurrences have a nearest neighbor of the same sense; by chance it would be three in
# sixteen. In layer 0 all vectors are equal, so it is chance there.


# %%
def n_same_sense(vectors: np.ndarray) -> int:
    """How many occurrences have a nearest neighbor of the same sense."""
    similarity = cosines(vectors)
    np.fill_diagonal(similarity, -np.inf)  # a word is not its own neighbor
    return sum(SENSES[i] == SENSES[k] for i, k in enumerate(similarity.argmax(1)))


for number, vectors in enumerate(layers):
    n_same = n_same_sense(vectors)
    print(f"layer {number}: {n_same} of {len(SENSES)} nearest neighbors have the same sense")
