"""ELMo: contextual word vectors from a pre-trained bidirectional language model."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.api import Elmo as Elmo
    from elmo.errors import CheckpointError as CheckpointError
    from elmo.errors import ConfigError as ConfigError
    from elmo.errors import DataError as DataError
    from elmo.errors import ElmoError as ElmoError
    from elmo.network.config import BiLMConfig as BiLMConfig

__version__ = "0.1.0"
__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "api": "Elmo",
        "errors": "CheckpointError ConfigError DataError ElmoError",
        "network.config": "BiLMConfig",
    },
)
