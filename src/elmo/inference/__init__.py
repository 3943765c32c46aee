"""Embed and score text with a trained biLM."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.inference.layer import ElmoLayer as ElmoLayer
    from elmo.inference.layer import ElmoOutput as ElmoOutput
    from elmo.inference.occurrence import Occurrence as Occurrence
    from elmo.inference.results import Embedded as Embedded
    from elmo.inference.results import EmbeddedToken as EmbeddedToken
    from elmo.inference.results import Scored as Scored
    from elmo.inference.results import ScoredSentence as ScoredSentence
    from elmo.inference.scoring import Scorer as Scorer
    from elmo.inference.scoring import Substitute as Substitute

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "layer": "ElmoLayer ElmoOutput",
        "occurrence": "Occurrence",
        "results": "Embedded EmbeddedToken Scored ScoredSentence",
        "scoring": "Scorer Substitute",
    },
)
