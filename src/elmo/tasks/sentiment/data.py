"""Trees in brackets with a label at each node, as the Stanford Sentiment Treebank has them.

In: a line such as (3 (2 It) (4 works)). Out: its phrases, each with its label; the whole is first.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError

_PIECE = re.compile(r"[()]|[^\s()]+")
# How treebanks write what would be read as structure.
UNESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True, slots=True)
class Phrase:
    """A node of a tree."""

    tokens: tuple[str, ...]
    label: str


def read_tree(line: str, path: Path, number: int) -> list[Phrase]:
    """The phrases of a tree, the whole first, then as their brackets open."""
    pieces = _PIECE.findall(line)
    tokens: list[str] = []
    nodes: list[tuple[int, str, int]] = []  # first token, label, the token after the last
    open_nodes: list[int] = []
    for place, piece in enumerate(pieces):
        if piece == "(":
            label = pieces[place + 1] if place + 1 < len(pieces) else ")"
            if label in "()" or (nodes and not open_nodes):
                raise _broken(path, number)
            open_nodes.append(len(nodes))
            nodes.append((len(tokens), label, -1))
        elif not open_nodes:
            raise _broken(path, number)
        elif piece == ")":
            node = open_nodes.pop()
            nodes[node] = (*nodes[node][:2], len(tokens))
            if nodes[node][0] == len(tokens):
                raise _broken(path, number)
        elif pieces[place - 1] != "(":
            tokens.append(UNESCAPED.get(piece, piece.replace("\\/", "/").replace("\\*", "*")))
    if open_nodes or not nodes:
        raise _broken(path, number)
    return [Phrase(tuple(tokens[start:stop]), label) for start, label, stop in nodes]


def _broken(path: Path, number: int) -> DataError:
    return DataError(
        f"{path}:{number}: brackets do not match or a label or word is missing, expected a tree "
        "such as (3 (2 It) (4 works)); mend the line"
    )
