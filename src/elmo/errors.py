"""What can go wrong that a user can mend: the library raises it, the command line prints it."""

from collections.abc import Iterator
from contextlib import contextmanager


class ElmoError(Exception):
    """Anything a user can mend: the message says what was found, what was expected, what to do."""


class ConfigError(ElmoError):
    """A setting is unknown, of the wrong type, or contradicts another one."""


class DataError(ElmoError):
    """A text or data file cannot be read as what it should be."""


class CheckpointError(ElmoError):
    """A model file is missing, broken, or does not fit its configuration."""


class MissingExtraError(ElmoError, ImportError):
    """A library is needed that only few need, and so is not installed with the package."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Import a library that an extra of the package installs, or say which extra that is."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error.name} is missing, expected with the extra {extra!r}; install it with: "
            f"pip install 'elmo-torch[{extra}]'"
        ) from error
