"""Blocks of pages that are generated from stored results, so that no number is typed by hand.

A page has `<!-- measured: NAME -->...<!-- end -->`; a function decorated with `block` generates the
text of each block. tables.py fills the pages; tests/docs/test_measured.py checks them.
"""

import re
from collections.abc import Callable

BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->)(.*?)(<!-- end -->)", re.DOTALL)
BLOCKS: dict[str, Callable[[], str]] = {}


def block(function: Callable[[], str]) -> Callable[[], str]:
    """Register the text of a block under the function's name."""
    BLOCKS[function.__name__.replace("_", "-")] = function
    return function


def fill(text: str) -> str:
    """Regenerate the text of every block of a page; a table is put on lines of its own."""

    def make(match: re.Match[str]) -> str:
        made = BLOCKS[match[2]]()
        separator = "\n" if made.startswith("|") or "\n" in made else ""
        return f"{match[1]}{separator}{made}{separator}{match[4]}"

    return BLOCK.sub(make, text)


def table(*rows: list[str]) -> str:
    """A Markdown table; the first row is the header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
