"""Errors that a user can fix: the library raises them, the command line prints them in one line."""

from collections.abc import Iterator
from contextlib import contextmanager


class ElmoError(Exception):
    """An error that a user can fix; the message says what was found and what was expected."""

    def __str__(self) -> str:
        """The message as one line; quoted messages of other libraries may have several."""
        return " ".join(super().__str__().splitlines())


class ConfigError(ElmoError):
    """A setting is unknown, of the wrong type, or contradicts another one."""


class DataError(ElmoError):
    """A text or data file cannot be read as what it should be."""


class CheckpointError(ElmoError):
    """A model file is missing, broken, or does not fit its configuration."""


class WriteError(ElmoError):
    """A file or folder cannot be written."""


class MissingExtraError(ElmoError, ImportError):
    """A library of one of the package's extras is not installed."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn a failed import in the block into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error.name} is not installed; install it with: pip install 'elmo-torch[{extra}]'"
        ) from error
