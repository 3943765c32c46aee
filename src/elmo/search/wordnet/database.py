"""WordNet 3.0's database files: the senses of words, most frequent first, and their glosses.

In: a folder with index.noun, data.noun and so on (Debian's package `wordnet-base` has them in
/usr/share/wordnet). Out: `WordNet`. Senses are named by their sense keys, such as
"bow%1:10:00::", which stay the same from version to version. The format is that of wndb(5WN), keys
are those of senseidx(5WN).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError
from elmo.files.text_files import read_raw_lines

DEBIAN_FOLDER = Path("/usr/share/wordnet")
PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
SYNSET_TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}  # s: a satellite adjective

SynsetId = tuple[str, str]  # part of speech of a data file, and offset in the file


@dataclass(frozen=True)
class Synset:
    """Words that share a sense."""

    part_of_speech: str
    keys: Mapping[str, str]  # sense keys by lemma
    gloss: str


@dataclass(frozen=True)
class WordNet:
    """The senses of words, and their synsets."""

    senses: Mapping[tuple[str, str], list[str]]  # keys by (lemma, part of speech), by frequency
    synsets: list[Synset]

    @staticmethod
    def read(folder: Path = DEBIAN_FOLDER) -> "WordNet":
        """Read the database files of a folder."""
        entries: dict[SynsetId, _Entry] = {}
        for part in PARTS_OF_SPEECH:
            for entry in _read_entries(folder / f"data.{PARTS_OF_SPEECH[part]}", part):
                entries[part, entry.offset] = entry
        senses = {}
        try:
            synsets = {name: entry.synset(entries) for name, entry in entries.items()}
            for part in PARTS_OF_SPEECH:
                for lemma, offsets in _read_index(folder / f"index.{PARTS_OF_SPEECH[part]}"):
                    senses[lemma, part] = [synsets[part, offset].keys[lemma] for offset in offsets]
        except KeyError as error:
            raise DataError(
                f"{folder}: {error} is missing, expected index and data files of "
                "one version; install WordNet again"
            ) from error
        return WordNet(senses, list(synsets.values()))

    def first_sense(self, lemma: str, part_of_speech: str) -> str | None:
        """The key of a lemma's most frequent sense; None for an unknown lemma."""
        keys = self.senses.get((lemma, part_of_speech))
        return keys[0] if keys else None


@dataclass(frozen=True)
class _Entry:
    """A line of a data file."""

    offset: str
    part_of_speech: str
    kind: str
    lexicographer_file: int
    words: list[tuple[str, int]]  # with their lex_id in that file
    head: str | None  # of a satellite: the offset of its head adjective
    gloss: str

    def synset(self, entries: Mapping[SynsetId, "_Entry"]) -> Synset:
        """The synset of this entry, with the sense keys of its words."""
        head = ":"
        if self.kind == "s" and self.head is not None:
            word, number = entries["a", self.head].words[0]
            head = f"{word}:{number:02}"
        kind = f"{SYNSET_TYPES[self.kind]}:{self.lexicographer_file:02}"
        keys: dict[str, str] = {}
        for word, number in self.words:  # of Earth and earth, the first is kept
            keys.setdefault(word, f"{word}%{kind}:{number:02}:{head}")
        return Synset(self.part_of_speech, keys, self.gloss)


def _read_entries(path: Path, part_of_speech: str) -> Iterator[_Entry]:
    for where, line in _lines(path):
        try:
            fields, gloss = line.split(" | ", 1)
            offset, file, kind, n_words, *rest = fields.split(" ")
            end = 2 * int(n_words, 16)
            words = [
                # The syntactic marker of an adjective is in parentheses: galore(ip).
                (word.partition("(")[0].lower(), int(number, 16))
                for word, number in zip(rest[:end:2], rest[1:end:2], strict=True)
            ]
            pointers = rest[end + 1 : end + 1 + 4 * int(rest[end])]
            heads = [
                place
                for symbol, place in zip(pointers[::4], pointers[1::4], strict=True)
                if symbol == "&"
            ]
            if not words or kind not in SYNSET_TYPES:
                raise ValueError(f"{kind!r}, {len(words)} words")
            head = heads[0] if heads else None
            yield _Entry(offset, part_of_speech, kind, int(file), words, head, gloss.strip())
        except (ValueError, IndexError) as error:
            raise _broken(where, error) from error


def _read_index(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Lemmas with the offsets of their synsets, most frequent first."""
    for where, line in _lines(path):
        fields = line.split()
        try:
            lemma, n_synsets = fields[0], int(fields[2])
            offsets = fields[-n_synsets:]
            if n_synsets < 1 or len(fields) != 6 + int(fields[3]) + n_synsets:
                raise ValueError(f"{len(fields)} fields")
            yield lemma, offsets
        except (ValueError, IndexError) as error:
            raise _broken(where, error) from error


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The location (PATH:NUMBER) of each line, and the line; the license at the top is skipped."""
    for number, line in enumerate(read_raw_lines(path), start=1):
        if not line.startswith("  "):
            yield f"{path}:{number}", line


def _broken(where: str, error: Exception) -> DataError:
    return DataError(
        f"{where}: not a line of WordNet's database ({error}), expected one as wndb(5WN) says; "
        "name the folder of WordNet 3.0, such as that of Debian's wordnet-base"
    )
