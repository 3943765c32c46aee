"""Data for word sense disambiguation: SemCor, and the all-words sets of Raganato et al. (2017).

In: SemCor as JSON lines (plain, .gz, .xz), {"tokens": [...], "senses": [[start, end, lemma, tag,
key]]}; a folder with NAME/NAME.data.xml and NAME/NAME.gold.key.txt for each set. Out:
`SenseSentence`s; `WsdSet`s, without the set ALL, which is the union of the others.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from elmo.errors import DataError
from elmo.files.text_files import read_lines

ALL = "ALL"
SET_PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
# By the first digit of a sense key after the lemma.
KEY_PARTS_OF_SPEECH = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}


@dataclass(frozen=True)
class MarkedSense:
    """The tokens [start, end) and their WordNet sense keys, usually one."""

    start: int
    end: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class SenseSentence:
    """A sentence with the senses of some of its words."""

    tokens: list[str]
    senses: list[MarkedSense]


def read_semcor(path: Path) -> list[SenseSentence]:
    """Read the sentences of a SemCor file, in order."""
    sentences = list(_read_semcor(path))
    if not any(sentence.senses for sentence in sentences):
        raise DataError(f"{path}: no senses, expected SemCor as JSON lines")
    return sentences


def lemma_of(key: str) -> tuple[str, str]:
    """The lemma and the part of speech of a sense key."""
    lemma, _, rest = key.partition("%")
    return lemma, KEY_PARTS_OF_SPEECH[rest[:1]]


def is_key(text: str) -> bool:
    """Whether a text is a sense key, such as "bow%1:10:00::"."""
    lemma, _, rest = text.partition("%")
    return bool(lemma) and rest[:1] in KEY_PARTS_OF_SPEECH and rest.count(":") == 4


def _read_semcor(path: Path) -> Iterator[SenseSentence]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        try:
            sentence = json.loads(line)
            tokens = sentence["tokens"]
            if not isinstance(tokens, list):
                raise TypeError(f"tokens are {tokens!r:.40}")
            tokens = [str(token) for token in tokens]
            senses = [_sense(marked, len(tokens)) for marked in sentence["senses"]]
        except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(
                f"{path}:{number}: not a marked sentence ({error}), expected JSON with tokens, and "
                "senses of [start, end, lemma, tag, key]"
            ) from error
        yield SenseSentence(tokens, senses)


def _sense(marked: Any, n_tokens: int) -> MarkedSense:  # noqa: ANN401 - whatever the JSON holds
    start, end, _, _, key = marked
    lemma, _, rest = str(key).partition("%")
    # Of several senses only the first has the lemma: year%1:28:02::;1:28:01::
    keys = tuple(f"{lemma}%{part.removeprefix(f'{lemma}%')}" for part in rest.split(";"))
    if not 0 <= int(start) < int(end) <= n_tokens:
        raise ValueError(f"tokens {start} to {end} of {n_tokens}")
    if not all(map(is_key, keys)):
        raise ValueError(f"the sense key {key!r}")
    return MarkedSense(int(start), int(end), keys)


@dataclass(frozen=True)
class Instance:
    """A word to disambiguate: the tokens [start, end)."""

    start: int
    end: int
    lemma: str
    part_of_speech: str
    gold: frozenset[str]  # any of these keys is correct


@dataclass(frozen=True)
class WsdSentence:
    """A sentence with its words to disambiguate."""

    tokens: list[str]
    instances: list[Instance]


@dataclass(frozen=True)
class WsdSet:
    """One of the all-words sets."""

    name: str
    sentences: list[WsdSentence]


def read_wsd_sets(folder: Path) -> list[WsdSet]:
    """Read all sets of a folder, sorted by name."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder, expected one with the all-words sets")
    paths = [path for path in sorted(folder.glob("*/*.data.xml")) if path.parent.name != ALL]
    if not paths:
        raise DataError(
            f"{folder}: no set, expected folders such as senseval2 with senseval2.data.xml and "
            "senseval2.gold.key.txt"
        )
    return [WsdSet(path.parent.name, _read_sentences(path)) for path in paths]


def _read_sentences(path: Path) -> list[WsdSentence]:
    gold = _read_gold(path.with_name(path.name.replace(".data.xml", ".gold.key.txt")))
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise DataError(
            f"{path}:{error.position[0]}: not XML ({error}), expected that of the evaluation "
            "framework"
        ) from error
    return [_sentence(element, gold, path) for element in root.iter("sentence")]


def _read_gold(path: Path) -> dict[str, frozenset[str]]:
    gold = {}
    for number, line in enumerate(read_lines(path), start=1):
        name, *keys = line.split() or [""]
        if not keys or not all(map(is_key, keys)):
            raise DataError(
                f"{path}:{number}: {line!r}, expected an instance id and its sense keys"
            )
        gold[name] = frozenset(keys)
    return gold


def _sentence(
    element: ElementTree.Element, gold: dict[str, frozenset[str]], path: Path
) -> WsdSentence:
    tokens: list[str] = []
    instances = []
    for child, words in _words(element):
        tokens += words
        if child.tag == "instance":
            name, part = child.get("id", ""), child.get("pos", "")
            if name not in gold or part not in SET_PARTS_OF_SPEECH or not words:
                raise DataError(
                    f"{path}: the instance {name!r} has no gold key, no word or an unknown part of "
                    f"speech ({part!r})"
                )
            start, lemma = len(tokens) - len(words), child.get("lemma", "").lower()
            instances.append(
                Instance(start, len(tokens), lemma, SET_PARTS_OF_SPEECH[part], gold[name])
            )
    return WsdSentence(tokens, instances)


def _words(element: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, list[str]]]:
    """The children of a sentence and their tokens; a child may have several."""
    for child in element:
        yield child, (child.text or "").split()
