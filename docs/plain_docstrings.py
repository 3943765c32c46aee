"""Our docstrings are plain text with code between single backticks; Sphinx reads RST."""

import re
from itertools import zip_longest

from sphinx.application import Sphinx


def as_rst(text: str) -> str:
    """The same text with its code marked as RST does it, and all else taken as it is."""
    prose_and_code = re.split(r"`([^`]+)`", text)
    marked = ""
    for prose, code in zip_longest(prose_and_code[::2], prose_and_code[1::2]):
        glue = "\\ " if re.match(r"\w", prose) and marked else ""  # as in `Sentence`s
        marked += glue + re.sub(r"([*|_\\])", r"\\\1", prose) + (f"``{code}``" if code else "")
    return marked


def _replace(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    lines[:] = as_rst("\n".join(lines)).split("\n")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", _replace)
