"""Demo: one word, four senses. Embeds "bow" in sixteen sentences and finds the nearest ones."""

import numpy as np

from elmo import Elmo
from elmo.inference import Embedded

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


def main(model: Elmo) -> None:
    """Print each sentence with the one whose "bow" has the nearest vector."""
    senses = [sense for sense, sentences in SENTENCES.items() for _ in sentences]
    embedded = model.embed([text for sentences in SENTENCES.values() for text in sentences])
    shown = [mark(sentence.tokens) for sentence in embedded]
    similarity, nearest = find_nearest(embedded, "top")

    print(
        f"\nOne word in {len(shown)} sentences, each with the sentence where its vector is nearest"
    )
    print("(cosine of the top layer; the model does not see the four headings):")
    for i, sense in enumerate(senses):
        if i == 0 or sense != senses[i - 1]:
            print(f"\n{sense}")
        print(f"  {shown[i]:52} {similarity[i, nearest[i]]:.2f}  {shown[nearest[i]]}")
    n_same = count_same(senses, nearest)
    n_by_chance = sum((senses.count(sense) - 1) / (len(senses) - 1) for sense in senses)
    alone = cosines(bow_vectors(embedded, 0)).min()
    print(f"\n{n_same} of {len(senses)} have the nearest neighbor under the same heading", end="")
    print(f" (by chance: {n_by_chance:.0f}).")
    print(f"Without context (layer 0) all vectors are equal: cosine {alone:.2f}.")


def find_nearest(embedded: list[Embedded], layer: str | int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of "bow" in all pairs of sentences, and the nearest other sentence of each."""
    similarity = cosines(bow_vectors(embedded, layer))
    np.fill_diagonal(similarity, -np.inf)  # a word is not its own neighbor
    return similarity, similarity.argmax(1)


def count_same(senses: list[str], nearest: np.ndarray) -> int:
    """How many sentences have a nearest neighbor under the same heading."""
    return sum(senses[i] == senses[k] for i, k in enumerate(nearest))


def bow_vectors(embedded: list[Embedded], layer: str | int) -> np.ndarray:
    """The vector of "bow" in each sentence, (sentences, dimensions)."""
    return np.stack([each.vectors(layer)[each.tokens.index("bow")] for each in embedded])


def mark(tokens: list[str]) -> str:
    """A sentence with its "bow" in brackets."""
    return " ".join(f"[{word}]" if word == "bow" else word for word in tokens)


def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosine of each pair of rows."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


if __name__ == "__main__":
    main(Elmo.load())
