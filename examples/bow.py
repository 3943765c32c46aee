"""The demo: one word, four meanings. Embeds sentences with "bow" and shows which are alike."""

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
    """Print each sentence with the one whose "bow" is most like its own."""
    senses = [sense for sense, sentences in SENTENCES.items() for _ in sentences]
    embedded = model.embed([text for sentences in SENTENCES.values() for text in sentences])
    places = [sentence.tokens.index("bow") for sentence in embedded]
    shown = [show(e.tokens, place) for e, place in zip(embedded, places, strict=True)]
    likeness = cosines(vectors_of(embedded, places, "top"))
    np.fill_diagonal(likeness, -np.inf)  # a word is not its own neighbor
    nearest = likeness.argmax(1)

    print(f"\nOne word in {len(shown)} sentences, and for each the one where it is used most alike")
    print("(cosine of the top layer; the model knows nothing of the four headings):")
    for i, sense in enumerate(senses):
        if i == 0 or sense != senses[i - 1]:
            print(f"\n{sense}")
        print(f"  {shown[i]:52} {likeness[i, nearest[i]]:.2f}  {shown[nearest[i]]}")
    n_alike = sum(senses[i] == senses[k] for i, k in enumerate(nearest))
    n_by_chance = sum((senses.count(sense) - 1) / (len(senses) - 1) for sense in senses)
    alone = cosines(vectors_of(embedded, places, 0)).min()
    print(f"\n{n_alike} of {len(senses)} are most like one under their own heading", end="")
    print(f" (by chance: {n_by_chance:.0f}).")
    print(f"Without context (layer 0) all of them are the same: cosine {alone:.2f}.")


def vectors_of(embedded: list[Embedded], places: list[int], layer: str | int) -> np.ndarray:
    """The vector of one word of each sentence, (sentences, dimensions)."""
    pairs = zip(embedded, places, strict=True)
    return np.stack([sentence.vectors(layer)[place] for sentence, place in pairs])


def show(tokens: list[str], place: int) -> str:
    """A sentence with one word marked."""
    return " ".join(f"[{word}]" if k == place else word for k, word in enumerate(tokens))


def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosine of each two rows."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


if __name__ == "__main__":
    main(Elmo.load())
