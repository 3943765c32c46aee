"""Settings of the documentation site: `make docs` builds docs/ and the docstrings into build/docs.

The site asks no other host for anything: the theme's styles, scripts and fonts are its own files.
"""

import sys
import tomllib
from pathlib import Path

import elmo

sys.path.insert(0, str(Path(__file__).parent))  # our own extensions

project = "elmo"
author = "the elmo-torch authors"
copyright = f"2026, {author}"
version = release = elmo.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "by_source",
    "plain_docstrings",
    "settings_tables",
]
source_suffix = {".md": "markdown"}
smartquotes = False  # it would make one dash of the two of --option
# Headings can be linked to, as on GitHub: page.md#a-heading.
myst_heading_anchors = 3
# Types are linked by their bare names, and two classes are called Elmo: ours and AllenNLP's.
suppress_warnings = ["ref.python"]
exclude_patterns = ["images", "benchmarks"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

# The repository's address is written once, in pyproject.toml.
_pyproject = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
html_theme = "furo"
html_theme_options = {
    "source_repository": _pyproject["project"]["urls"]["Repository"],
    "source_branch": "main",
    "source_directory": "docs/",
}
html_title = f"elmo {elmo.__version__}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
