"""The models inside the package, each a folder here, known by its name.

In: what a user named. Out: the folder of a shipped model if it is the name of one, else the path
as it was.
"""

from pathlib import Path

ENGLISH = "english"

_FOLDER = Path(__file__).parent


def locate(path: Path) -> Path:
    """The folder behind a shipped model's name; a file or folder of that name goes first."""
    shipped = _FOLDER / path
    is_name = len(path.parts) == 1 and shipped.is_dir() and not path.exists()
    return shipped if is_name else path
