"""What can go wrong that a user can mend: the library raises it, the command line prints it."""


class ElmoError(Exception):
    """Anything a user can mend: the message says what was found, what was expected, what to do."""


class ConfigError(ElmoError):
    """A setting is unknown, of the wrong type, or contradicts another one."""


class DataError(ElmoError):
    """A text or data file cannot be read as what it should be."""


class CheckpointError(ElmoError):
    """A model file is missing, broken, or does not fit its configuration."""
