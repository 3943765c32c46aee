"""flair: `ElmoEmbeddings`, which replaces flair's own removed ELMo embeddings.

In: flair's sentences. Out: the same sentences, each token with its vector in context. The model is
frozen; only its path or name is saved. Import this before a tagger that uses it is loaded.
"""

from pathlib import Path
from typing import Any

import torch

from elmo.adapters import open_model
from elmo.errors import needs_extra
from elmo.inference.results import Layers
from elmo.models import ENGLISH

with needs_extra("flair"):
    import flair
    from flair.data import Sentence
    from flair.embeddings.base import TokenEmbeddings, register_embeddings


@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):
    """Token embeddings of any model that `Elmo.load` opens."""

    def __init__(self, model: str | Path = ENGLISH, layers: Layers = "average") -> None:
        # flair does not embed again what has vectors of this name, so it must tell models apart:
        # `elmo pretrain` calls each one "model".
        path = Path(model)
        self.name = f"elmo-{path.resolve() if path.exists() else path}-{layers}"
        self.static_embeddings = True  # the same in each epoch, so flair may cache them
        super().__init__()
        self.model = str(model)
        self.layers = layers
        self.eval()

    @property
    def embedding_length(self) -> int:
        """Width of a token's vector."""
        return open_model(self.model).output_dim

    def _add_embeddings_internal(self, sentences: list[Sentence]) -> None:
        elmo = open_model(self.model)
        texts = [[token.text for token in sentence] for sentence in sentences]
        for sentence, embedded in zip(sentences, elmo.stream_tokens(texts), strict=True):
            vectors = torch.from_numpy(embedded.vectors(self.layers)).float().to(flair.device)
            for token, vector in zip(sentence, vectors, strict=True):
                token.set_embedding(self.name, vector)

    def to_params(self) -> dict[str, Any]:
        return {"model": self.model, "layers": self.layers}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> "ElmoEmbeddings":
        return cls(**params)
