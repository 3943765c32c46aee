"""Models: those inside the package, those that are downloaded by name, and all their formats.

In: what a user named. Out: the folder of a shipped or released model if it is the name of one, else
the path as it was.
"""

from pathlib import Path

ENGLISH = "english"
SHIPPED = (ENGLISH,)


def locate(path: Path) -> Path:
    """The folder behind a model's name; a file or folder of that name goes first."""
    from elmo.models import catalog, downloads

    name = path.as_posix()  # of a repository, on Windows too
    if path.exists():
        return path
    if name in SHIPPED:
        return Path(__file__).parent / name
    if catalog.is_name(name):
        return downloads.fetch(name)
    return path
