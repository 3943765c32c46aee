"""Make the example sentences that the package ships, from WordNet's glosses.

usage: python -m elmo.search.wordnet.make_sentences [/usr/share/wordnet]
In: WordNet's database. Out: sentences.txt.xz beside this file: an example a line, with the key of
the sense that it shows, the place of the word that has it, and the tokens. Made by Debian's
wordnet-base 1:3.0-37.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from elmo.search.wordnet.database import DEBIAN_FOLDER, Synset, WordNet
from elmo.search.wordnet.morphology import Morphology
from elmo.search.wordnet.sentences import SENTENCES, SenseExample, write_examples
from elmo.text.tokenizer import tokenize

FEWEST_TOKENS = 3  # two words say little of a sense
MOST_TOKENS = 60

_QUOTED = re.compile(r'"([^"]+)"')
# What is no sentence of plain words: lists, formulas, dialogue, and quotes that were cut.
_ODD = re.compile(r"[\[\]{}<>=|*_\\/]|\.\.\.|--|[^ -~]")


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
    """The examples of all glosses, each once, by their senses' keys."""
    morphology = Morphology.read(folder)
    found = {
        (example.key, " ".join(example.tokens)): example
        for synset in WordNet.read(folder).synsets
        for example in examples_of(synset, morphology)
    }
    return [found[name] for name in sorted(found)]


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else DEBIAN_FOLDER
    write_examples(SENTENCES, make_examples(source))
