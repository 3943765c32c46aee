"""Words that no list holds: misspelt and invented ones, made by rule, with the word that is meant.

In: words by falling frequency. Out: `UnseenWord`s; the same words give the same ones.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FEWEST_LETTERS = 6  # of a word that is misspelt; in short ones a letter is too much of the word
SEED = 0


@dataclass(frozen=True)
class UnseenWord:
    """A word that is in no list, and what it was made of."""

    kind: str
    written: str
    meant: str


def swapped(word: str, place: int, letter: str) -> str:
    """With two neighboring letters in each other's place."""
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def dropped(word: str, place: int, letter: str) -> str:
    """Without a letter."""
    return word[:place] + word[place + 1 :]


def doubled(word: str, place: int, letter: str) -> str:
    """With a letter twice."""
    return word[:place] + word[place] + word[place:]


def replaced(word: str, place: int, letter: str) -> str:
    """With another letter in the place of one."""
    return word[:place] + letter + word[place + 1 :]


# A word, the place of one of its inner letters, and a letter to put there.
MISSPELLINGS: dict[str, Callable[[str, int, str], str]] = {
    "swapped": swapped,
    "dropped": dropped,
    "doubled": doubled,
    "replaced": replaced,
}
INVENTIONS = {"un·able": "un{}able", "·ization": "{}ization", "·-like": "{}-like"}


def meant_words(words: Iterable[str], n_words: int) -> list[str]:
    """The first so many words that are long enough and have small letters of English only."""
    plain = (word for word in words if len(word) >= FEWEST_LETTERS and set(word) <= set(LETTERS))
    return [word for word, _ in zip(plain, range(n_words), strict=False)]


def make_unseen(meant: Sequence[str], known: Iterable[str]) -> list[UnseenWord]:
    """One word of every kind for each meant one, but for those that are known words themselves."""
    generator = random.Random(SEED)
    listed = set(known)
    unseen = []
    for word in meant:
        place, letter = generator.randrange(1, len(word) - 2), generator.choice(LETTERS)
        made = {kind: misspell(word, place, letter) for kind, misspell in MISSPELLINGS.items()}
        made |= {kind: pattern.format(word) for kind, pattern in INVENTIONS.items()}
        unseen += [
            UnseenWord(kind, written, word)
            for kind, written in made.items()
            if written not in listed
        ]
    return unseen
