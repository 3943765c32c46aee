"""Models: those included in the package, those downloaded by name, and all their formats.

In: a path or a name. Out: the folder of the shipped or released model of that name, else the path
unchanged.
"""

from pathlib import Path

ENGLISH = "english"
SHIPPED = (ENGLISH,)


def locate(path: Path) -> Path:
    """The folder of a named model; an existing file or folder of that name takes precedence."""
    from elmo.models import catalog, downloads

    name = path.as_posix()  # with slashes on Windows too, as in a repository's name
    if path.exists():
        return path
    if name in SHIPPED:
        return Path(__file__).parent / name
    if catalog.is_name(name):
        return downloads.fetch(name)
    return path
