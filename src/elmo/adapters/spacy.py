"""spaCy: a component that sets the contextual vectors of spaCy's own tokens.

In: docs. Out: the same docs with `doc.tensor` (T, D), and `token.vector`, `span.vector`,
`doc.vector` and `similarity` computed from it. The factory is "elmo"; an architecture
"elmo.Tok2Vec.v1" lets spaCy's trainable components learn from frozen ELMo vectors.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.adapters import open_model
from elmo.api import Elmo
from elmo.errors import needs_extra
from elmo.inference.results import Layers
from elmo.models import ENGLISH

with needs_extra("spacy"):
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token
    from spacy.util import registry
    from thinc.api import Maxout, Model, chain, with_array

Vectors = NDArray[np.float32]
SETTINGS, MODEL = "elmo.json", "model"


@Language.factory(
    "elmo",
    assigns=["doc.tensor"],
    default_config={"model": ENGLISH, "layers": "average", "bundles_model": True},
)
def build_component(
    nlp: Language, name: str, model: str, layers: Layers, bundles_model: bool
) -> "ElmoComponent":
    """Create the component from a pipeline's config."""
    return ElmoComponent(name, model, layers, bundles_model=bundles_model)


class ElmoComponent:
    """A pipeline component; its model is loaded for the first doc.

    With `bundles_model`, the pipeline's folder gets a copy of the model, so that it can be moved.
    """

    def __init__(
        self,
        name: str,
        model: str | Path = ENGLISH,
        layers: Layers = "average",
        *,
        bundles_model: bool = True,
    ) -> None:
        self.name = name
        self.model_path = Path(model)
        self.layers = layers
        self.bundles_model = bundles_model

    def __call__(self, doc: Doc) -> Doc:
        """Set the vectors of one doc."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """Set the vectors of docs, in batches of `batch_size`."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            for doc, vectors in zip(batch, embed_docs(self.elmo, batch, self.layers), strict=True):
                doc.tensor = vectors
                yield set_hooks(doc)

    @property
    def elmo(self) -> Elmo:
        return open_model(self.model_path)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the settings, and the model if it is bundled."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SETTINGS).write_bytes(self.to_bytes())
        if self.bundles_model:
            self.elmo.save(folder / MODEL)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        folder = Path(path)
        self.from_bytes((folder / SETTINGS).read_bytes())
        if self.bundles_model:
            self.model_path = folder / MODEL
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the settings; the model is never included."""
        settings = {
            "model": str(self.model_path),
            "layers": self.layers,
            "bundles_model": self.bundles_model,
        }
        return json.dumps(settings).encode("utf-8")

    def from_bytes(self, settings: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Restore the settings that `to_bytes` returned."""
        values = json.loads(settings)
        self.model_path, self.layers = Path(values["model"]), values["layers"]
        self.bundles_model = values["bundles_model"]
        return self


def set_hooks(doc: Doc) -> Doc:
    """Set hooks that compute a doc's vectors and similarities from `doc.tensor`.

    The component calls this. `Doc.to_bytes` writes the tensor but not the hooks: call it for a doc
    of `from_bytes`, of `from_disk`, or of `nlp.pipe` with `n_process`.
    """
    doc.user_hooks.update(DOC_HOOKS)
    doc.user_span_hooks.update(SPAN_HOOKS)
    doc.user_token_hooks.update(TOKEN_HOOKS)
    return doc


def embed_docs(elmo: Elmo, docs: list[Doc], layers: Layers = "average") -> Iterator[Vectors]:
    """The vectors (T, D) of each doc's tokens; those of whitespace tokens are zero.

    Sentences are embedded separately if spaCy has set them; otherwise a doc is one sentence.
    """
    places = [_sentences(doc) for doc in docs]
    sentences = [
        [doc[place].text for place in sentence]
        for doc, in_doc in zip(docs, places, strict=True)
        for sentence in in_doc
    ]
    embedded = elmo.stream_tokens(sentences)
    for doc, in_doc in zip(docs, places, strict=True):
        vectors = np.zeros((len(doc), elmo.output_dim), dtype=np.float32)
        for sentence in in_doc:
            vectors[sentence] = next(embedded).vectors(layers)
        yield vectors


def _sentences(doc: Doc) -> list[list[int]]:
    """The token indices of each sentence, without whitespace tokens."""
    spans = doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
    return [[token.i for token in span if not token.is_space] for span in spans]


@registry.architectures("elmo.Tok2Vec.v1")
def build_tok2vec(
    model: str = ENGLISH, width: int = 128, layers: Layers = "average"
) -> Model[list[Doc], list[Vectors]]:
    """Frozen ELMo vectors, followed by one trainable layer of size `width`."""
    frozen = Model("elmo", _forward, attrs={"model": model, "layers": layers})
    learned: Model[Vectors, Vectors] = Maxout(nO=width, nP=3, normalize=True)
    return chain(frozen, with_array(learned))


def _forward(
    layer: Model[list[Doc], list[Vectors]], docs: list[Doc], is_train: bool
) -> tuple[list[Vectors], Callable[[list[Vectors]], list[Doc]]]:
    elmo = open_model(layer.attrs["model"])
    vectors = [layer.ops.asarray(v) for v in embed_docs(elmo, docs, layer.attrs["layers"])]
    return vectors, lambda gradients: []


def _mean(piece: Doc | Span) -> Any:  # noqa: ANN401 - an array of spaCy's device
    place = slice(piece.start, piece.end) if isinstance(piece, Span) else slice(None)
    rows = piece.doc.tensor[place]
    return rows.mean(0) if len(rows) else np.zeros(rows.shape[1], np.float32)


def _row(token: Token) -> Any:  # noqa: ANN401
    return token.doc.tensor[token.i]


def _norm(piece: Doc | Span | Token) -> float:
    return float((piece.vector**2).sum() ** 0.5)


def _cosine(piece: Doc | Span | Token, other: Doc | Span | Token) -> float:
    norms = _norm(piece) * _norm(other)
    return float((piece.vector * other.vector).sum() / norms) if norms else 0.0


def _has_vector(piece: Doc | Span | Token) -> bool:
    return True


# spaCy's own similarity is 1 for equal text, whatever the vectors. Spans need no hook for the norm;
# with one, spaCy 3.8 returns the vector as the norm, because it calls the wrong hook.
SPAN_HOOKS = {"vector": _mean, "has_vector": _has_vector, "similarity": _cosine}
DOC_HOOKS = SPAN_HOOKS | {"vector_norm": _norm}
TOKEN_HOOKS = DOC_HOOKS | {"vector": _row}
