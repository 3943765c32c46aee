"""Build the example sentences that the package ships, from WordNet's glosses.

usage: python -m benchmarks.wordnet_sentences [/usr/share/wordnet]
In: WordNet's database. Out: src/elmo/search/wordnet/sentences.txt.xz: one example per line, with
the key of its sense, the position of the word that has the sense, and the tokens. Built from
Debian's wordnet-base 1:3.0-37.
"""

import lzma
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.files.atomic import atomic_write
from elmo.files.text_files import read_lines
from elmo.search.wordnet.database import DEBIAN_FOLDER, PARTS_OF_SPEECH, Synset, WordNet
from elmo.search.wordnet.sentences import SENTENCES, SenseExample
from elmo.text.tokenizer import tokenize

FEWEST_TOKENS = 3  # two words say little about a sense
MOST_TOKENS = 60

_QUOTED = re.compile(r'"([^"]+)"')
# Matches quotes that are not plain sentences: lists, formulas, dialogue, and truncated quotes.
_ODD = re.compile(r"[\[\]{}<>=|*_\\/]|\.\.\.|--|[^ -~]")

# Endings and their replacements in the lemma, by part of speech.
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
    """Finds lemmas by WordNet's rules and the exceptions to them."""

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
        """The possible lemmas of a word, itself included, in lower case."""
        word = word.lower()
        found = {word, *self.exceptions.get((word, part_of_speech), ())}
        for ending, instead in RULES[part_of_speech]:
            if word.endswith(ending):
                found.add(word.removesuffix(ending) + instead)
        return found


def examples_of(synset: Synset, morphology: Morphology) -> Iterator[SenseExample]:
    """The quoted sentences of a gloss in which a word of the synset occurs once."""
    for quoted in _QUOTED.findall(synset.gloss):
        if _ODD.search(quoted):
            continue
        tokens = tokenize(" ".join(quoted.replace("`", "'").split())).tokens
        forms = [morphology.lemmas(token, synset.part_of_speech) for token in tokens]
        found = [
            (position, lemma)
            for position, candidates in enumerate(forms)
            for lemma in synset.keys
            if lemma in candidates
        ]
        if len(found) == 1 and FEWEST_TOKENS <= len(tokens) <= MOST_TOKENS:
            position, lemma = found[0]
            yield SenseExample(synset.keys[lemma], position, tokens)


def make_examples(folder: Path) -> list[SenseExample]:
    """The distinct examples of all glosses, sorted by sense key."""
    morphology = Morphology.read(folder)
    found = {
        (example.key, " ".join(example.tokens)): example
        for synset in WordNet.read(folder).synsets
        for example in examples_of(synset, morphology)
    }
    return [found[name] for name in sorted(found)]


def write_examples(path: Path, examples: Iterable[SenseExample]) -> None:
    """Write examples to an .xz file, one per line."""
    lines = (
        f"{example.key}\t{example.position}\t{' '.join(example.tokens)}\n" for example in examples
    )
    packed = lzma.compress("".join(lines).encode("utf-8"), preset=9 | lzma.PRESET_EXTREME)
    with atomic_write(path) as temporary:
        temporary.write_bytes(packed)


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else DEBIAN_FOLDER
    write_examples(SENTENCES, make_examples(source))
