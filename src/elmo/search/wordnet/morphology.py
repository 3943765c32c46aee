"""The lemmas that a word of a text may be a form of, by WordNet's own rules (morphy(7WN)).

In: a word and a part of speech. Out: candidates, of which those that are lemmas count.
"""

from dataclasses import dataclass
from pathlib import Path

from elmo.files.text_files import read_lines
from elmo.search.wordnet.database import PARTS_OF_SPEECH

# Endings, and what replaces them in the lemma.
RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}


@dataclass(frozen=True)
class Morphology:
    """Rules, and the exceptions to them."""

    exceptions: dict[tuple[str, str], list[str]]  # lemmas by (word, part of speech)

    @staticmethod
    def read(folder: Path) -> "Morphology":
        """Read the exceptions, noun.exc and so on."""
        exceptions = {}
        for part, name in PARTS_OF_SPEECH.items():
            for line in read_lines(folder / f"{name}.exc"):
                word, *lemmas = line.split()
                exceptions[word, part] = lemmas
        return Morphology(exceptions)

    def lemmas(self, word: str, part_of_speech: str) -> set[str]:
        """What a word may be a form of, itself included; in small letters."""
        word = word.lower()
        found = {word, *self.exceptions.get((word, part_of_speech), ())}
        for ending, instead in RULES[part_of_speech]:
            if word.endswith(ending):
                found.add(word.removesuffix(ending) + instead)
        return found
