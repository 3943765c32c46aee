"""The all-words sets of the word sense evaluation framework (Raganato et al., 2017).

In: a folder with a folder for each set: NAME/NAME.data.xml, NAME/NAME.gold.key.txt. Out: `WsdSet`s.
The set ALL, which is the others together, is left out: it is counted from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.probes.semcor import is_key

ALL = "ALL"
PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}


@dataclass(frozen=True)
class Instance:
    """A word whose sense is asked for."""

    start: int
    end: int  # it is the tokens before this one
    lemma: str
    part_of_speech: str
    gold: frozenset[str]  # any of these keys is right


@dataclass(frozen=True)
class WsdSentence:
    """A sentence, and the words of it that are asked for."""

    tokens: list[str]
    instances: list[Instance]


@dataclass(frozen=True)
class WsdSet:
    """One of the sets."""

    name: str
    sentences: list[WsdSentence]


def read_wsd_sets(folder: Path) -> list[WsdSet]:
    """All sets of a folder, by name."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder, expected one with the all-words sets; name it")
    paths = [path for path in sorted(folder.glob("*/*.data.xml")) if path.parent.name != ALL]
    if not paths:
        raise DataError(
            f"{folder}: no set, expected folders such as senseval2 with senseval2.data.xml and "
            "senseval2.gold.key.txt; name the folder that holds them"
        )
    return [WsdSet(path.parent.name, _read_sentences(path)) for path in paths]


def _read_sentences(path: Path) -> list[WsdSentence]:
    gold = _read_gold(path.with_name(path.name.replace(".data.xml", ".gold.key.txt")))
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise DataError(
            f"{path}:{error.position[0]}: not XML ({error}), expected that of the evaluation "
            "framework; get the file again"
        ) from error
    return [_sentence(element, gold, path) for element in root.iter("sentence")]


def _read_gold(path: Path) -> dict[str, frozenset[str]]:
    gold = {}
    for number, line in enumerate(read_lines(path), start=1):
        name, *keys = line.split() or [""]
        if not keys or not all(map(is_key, keys)):
            raise DataError(
                f"{path}:{number}: {line!r} is not an instance and its sense keys, as expected; "
                "get the file again"
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
            if name not in gold or part not in PARTS_OF_SPEECH or not words:
                raise DataError(
                    f"{path}: the instance {name!r} has no gold key, no word or an unknown part of "
                    f"speech ({part!r}), expected all three; get the set again"
                )
            start, lemma = len(tokens) - len(words), child.get("lemma", "").lower()
            instances.append(Instance(start, len(tokens), lemma, PARTS_OF_SPEECH[part], gold[name]))
    return WsdSentence(tokens, instances)


def _words(element: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, list[str]]]:
    """The children of a sentence, and the tokens of each: some are several words."""
    for child in element:
        yield child, (child.text or "").split()
