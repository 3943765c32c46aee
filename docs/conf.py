"""Settings of the documentation site: `make docs` builds docs/ and the docstrings into build/docs.

The site asks no other host for anything: the theme's styles, scripts and fonts are its own files.
"""

import re
from itertools import zip_longest

from sphinx.application import Sphinx

import elmo

project = "elmo"
author = "the authors of elmo-torch"
version = release = elmo.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
source_suffix = {".md": "markdown"}
# Headings can be linked to, as on GitHub: page.md#a-heading.
myst_heading_anchors = 3
# The navigation (index.md) names pages before they are written: an absent one is left out.
suppress_warnings = ["toc.not_readable"]
exclude_patterns = ["images", "benchmarks"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"elmo {elmo.__version__}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False


def plain_to_rst(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Our docstrings are plain text with code between single backticks; Sphinx reads RST."""
    prose_and_code = re.split(r"`([^`]+)`", "\n".join(lines))
    text = ""
    for prose, code in zip_longest(prose_and_code[::2], prose_and_code[1::2]):
        glue = "\\ " if re.match(r"\w", prose) and text else ""  # as in `Sentence`s
        text += glue + re.sub(r"([*|_\\])", r"\\\1", prose) + (f"``{code}``" if code else "")
    lines[:] = text.split("\n")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", plain_to_rst)
