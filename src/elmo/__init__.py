"""ELMo: one vector per word that changes with its context.

The public names, each imported from its room at first use, so that `import elmo` and
`elmo --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo.api import Elmo
    from elmo.errors import CheckpointError, ConfigError, DataError, ElmoError
    from elmo.network.config import BiLMConfig

__version__ = "0.1.0"
__all__ = ["BiLMConfig", "CheckpointError", "ConfigError", "DataError", "Elmo", "ElmoError"]

_ROOMS = {
    "BiLMConfig": "elmo.network.config",
    "CheckpointError": "elmo.errors",
    "ConfigError": "elmo.errors",
    "DataError": "elmo.errors",
    "Elmo": "elmo.api",
    "ElmoError": "elmo.errors",
}


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
