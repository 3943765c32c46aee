"""Demo: one word, four senses. Embeds "bow" in sixteen sentences and finds the nearest ones."""

import numpy as np

from elmo import Elmo
from elmo.inference import Embedded

SENTENCES = {
    "theatre": [
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
    positions = [sentence.tokens.index("bow") for sentence in embedded]
    shown = [show(e.tokens, position) for e, position in zip(embedded, positions, strict=True)]
    similarity = cosines(vectors_of(embedded, positions, "top"))
    np.fill_diagonal(similarity, -np.inf)  # a word is not its own neighbor
    nearest = similarity.argmax(1)

    print(
        f"\nOne word in {len(shown)} sentences, each with the sentence where its vector is nearest"
    )
    print("(cosine of the top layer; the model does not see the four headings):")
    for i, sense in enumerate(senses):
        if i == 0 or sense != senses[i - 1]:
            print(f"\n{sense}")
        print(f"  {shown[i]:52} {similarity[i, nearest[i]]:.2f}  {shown[nearest[i]]}")
    n_same = sum(senses[i] == senses[k] for i, k in enumerate(nearest))
    n_by_chance = sum((senses.count(sense) - 1) / (len(senses) - 1) for sense in senses)
    alone = cosines(vectors_of(embedded, positions, 0)).min()
    print(f"\n{n_same} of {len(senses)} have the nearest neighbor under the same heading", end="")
    print(f" (by chance: {n_by_chance:.0f}).")
    print(f"Without context (layer 0) all vectors are equal: cosine {alone:.2f}.")


def vectors_of(embedded: list[Embedded], positions: list[int], layer: str | int) -> np.ndarray:
    """The vector of one word of each sentence, (sentences, dimensions)."""
    pairs = zip(embedded, positions, strict=True)
    return np.stack([sentence.vectors(layer)[position] for sentence, position in pairs])


def show(tokens: list[str], position: int) -> str:
    """A sentence with one word marked."""
    return " ".join(f"[{word}]" if k == position else word for k, word in enumerate(tokens))


def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosine of each pair of rows."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


if __name__ == "__main__":
    main(Elmo.load())
