"""Pydantic schemas that validate requests, and that describe responses in /openapi.json."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_SURROGATE = re.compile("[\ud800-\udfff]")


def _check_unicode(text: str) -> str:
    """Refuse lone surrogates, which JSON can escape but UTF-8 cannot encode."""
    if _SURROGATE.search(text):
        raise ValueError("a lone surrogate is not valid Unicode text")
    return text


def _to_int(value: object) -> object:
    """Convert 3.0 to 3: JSON Schema accepts it as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


String = Annotated[str, AfterValidator(_check_unicode)]
Tokens = Annotated[list[String], Field(fail_fast=True)]
Text = Annotated[String | Tokens, Field(description="Raw text, or the tokens of one sentence.")]
Texts = Annotated[list[Text], Field(fail_fast=True, min_length=1, examples=[["I took a bow."]])]
Weight = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
LayerNumber = Annotated[int, Field(ge=0, le=99), BeforeValidator(_to_int)]
Layer = Annotated[
    Literal["top", "average"] | LayerNumber | list[Weight],
    Field(description="One layer, the average of all, or one weight per layer."),
]
Layers = Annotated[
    Literal["all", "top", "average"] | LayerNumber | list[Weight],
    Field(description="All layers, one layer, the average of all, or one weight per layer."),
]
Count = Annotated[int, Field(ge=1, le=100), BeforeValidator(_to_int)]


class Body(BaseModel):
    """A request body: no unknown keys, no type conversions."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TextsBody(Body):
    texts: Texts


Pair = Annotated[list[String], Field(min_length=2, max_length=2)]


class PredictBody(Body):
    texts: Annotated[
        Texts, Field(description="For all tasks but nli and squad.", examples=[["I took a bow."]])
    ] = []
    pairs: Annotated[
        list[Pair],
        Field(
            fail_fast=True,
            min_length=1,
            description="Premise and hypothesis (nli), or question and paragraph (squad).",
        ),
    ] = []


class EmbedBody(TextsBody):
    layers: Annotated[Layers, Field(examples=["top"])] = "average"


class SubstitutesBody(Body):
    sentence: Annotated[
        Annotated[String, Field(min_length=1)] | Annotated[Tokens, Field(min_length=1)],
        Field(description="Raw text, or tokens, of one sentence.", examples=["I took a bow."]),
    ]
    position: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            examples=[3],
            description="Index of a token, from 0; less than the number of tokens.",
        ),
        BeforeValidator(_to_int),
    ]
    k: Count = 10


class NeighborsBody(SubstitutesBody):
    layers: Layer = "top"
    any_word: Annotated[bool, Field(description="Search all words, not only this word.")] = False


class TextResponse(BaseModel):
    """The tokens of a text, their offsets, and the token spans of its sentences."""

    tokens: list[str]
    offsets: list[tuple[int, int]] | None
    sentences: list[tuple[int, int]]


class EmbeddedResponse(TextResponse):
    """One vector per token; for `all` layers a list of these, layer 0 first."""

    vectors: list[list[float]] | list[list[list[float]]]


class EmbedResponse(BaseModel):
    texts: list[EmbeddedResponse]


class ScoredSentenceResponse(BaseModel):
    """Natural log-probabilities and surprisals in bits; keys: forward, backward, combined."""

    tokens: list[str]
    offsets: list[tuple[int, int]] | None
    is_known: list[bool]
    log_probs: dict[str, list[float]]
    surprisals: dict[str, list[float]]
    boundary_log_probs: Annotated[
        dict[str, float],
        Field(description="Of the sentence boundary: its end (forward), its start (backward)."),
    ]
    sentence_log_prob: dict[str, float]
    perplexity: dict[str, float | None]


class ScoredResponse(BaseModel):
    """The sentences of a text, and its perplexity per direction."""

    sentences: list[ScoredSentenceResponse]
    perplexity: dict[str, float | None]


class ScoreResponse(BaseModel):
    texts: list[ScoredResponse]


class SubstituteResponse(BaseModel):
    """A word, its natural log-probabilities, and the score it is ranked by."""

    word: str
    log_probs: dict[str, float]
    score: float


class SubstitutesResponse(BaseModel):
    """The tokens of the sentence, and the words that fit the position, best first."""

    tokens: list[str]
    substitutes: list[SubstituteResponse]


class OccurrenceResponse(BaseModel):
    """An occurrence in the indexed text, and its cosine similarity to the word of the request."""

    tokens: list[str]
    position: int
    similarity: float


class SimilarWordResponse(BaseModel):
    """A word of the indexed text, and its cosine similarity without context (layer 0)."""

    word: str
    similarity: float


class NeighborsResponse(BaseModel):
    """The tokens of the sentence, and the nearest neighbors of the word, best first."""

    tokens: list[str]
    in_context: list[OccurrenceResponse]
    without_context: list[SimilarWordResponse]


class ArgumentResponse(BaseModel):
    role: str
    spans: list[tuple[int, int]]


class FrameResponse(BaseModel):
    """A predicate and its arguments, as token positions."""

    predicate: int
    arguments: list[ArgumentResponse]


class MentionResponse(BaseModel):
    """The tokens of a mention: from `start` to before `end`."""

    start: int
    end: int
    text: str


class PredictedTextResponse(TextResponse):
    """One of `labels`, `label`, `frames` and `clusters`, depending on the task."""

    labels: Annotated[list[str] | None, Field(description="One label per token.")] = None
    label: Annotated[str | None, Field(description="Of the whole text.")] = None
    frames: list[FrameResponse] | None = None
    clusters: Annotated[
        list[list[MentionResponse]] | None, Field(description="Mentions of the same entity.")
    ] = None


class PredictedPairResponse(BaseModel):
    """`label` (nli), or `answer` and its characters in the paragraph (squad)."""

    premise: list[str] | None = None
    hypothesis: list[str] | None = None
    label: str | None = None
    question: str | None = None
    answer: str | None = None
    start: int | None = None
    end: int | None = None


class PredictResponse(BaseModel):
    texts: list[PredictedTextResponse] | None = None
    pairs: list[PredictedPairResponse] | None = None


class InfoResponse(BaseModel):
    version: str
    model: Annotated[str, Field(description="Name or path of the model.")]
    layers: Annotated[int, Field(description="Number of layers, the token layer included.")]
    output_dim: int
    directions: list[str]
    parameters: int
    words: Annotated[
        int | None, Field(description="Words that the model can predict; null without a softmax.")
    ]
    indexed_tokens: int | None
    tasks: Annotated[
        dict[str, str],
        Field(description="Name and kind: labels, label, frames, clusters; pair, answer."),
    ]
    limits: dict[str, float]


class HealthResponse(BaseModel):
    status: Literal["ok"]


class ReadyResponse(BaseModel):
    status: Literal["ready"]


class OpenAIEmbeddingsBody(BaseModel):
    """Unknown keys are ignored, as clients send keys of newer versions."""

    model_config = ConfigDict(strict=True)

    input: Annotated[
        String | Annotated[list[String], Field(fail_fast=True, min_length=1)],
        Field(description="One text or several.", examples=[["I took a bow."]]),
    ]
    model: Annotated[
        String, Field(description="See /v1/models; a suffix chooses the layers: `english:top`.")
    ]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[
        Annotated[int, BeforeValidator(_to_int)] | None,
        Field(description="Optional; if given, it must be the output dimension of the model."),
    ] = None
    user: String | None = None


class OpenAIEmbedding(BaseModel):
    object: Literal["embedding"]
    index: int
    embedding: Annotated[
        list[float] | str, Field(description="As base64: little-endian float32 values.")
    ]


class OpenAIUsage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class OpenAIEmbeddingsResponse(BaseModel):
    object: Literal["list"]
    data: list[OpenAIEmbedding]
    model: str
    usage: OpenAIUsage


class OpenAIModel(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class OpenAIModelsResponse(BaseModel):
    object: Literal["list"]
    data: list[OpenAIModel]


class OpenAIErrorDetails(BaseModel):
    message: str
    type: str
    param: None
    code: str | None


class OpenAIErrorResponse(BaseModel):
    error: OpenAIErrorDetails


class EmbedAllBody(BaseModel):
    """Unknown keys, such as `truncate`, are ignored: long texts are never cut."""

    model_config = ConfigDict(strict=True)

    inputs: Annotated[
        String | Annotated[list[String], Field(fail_fast=True, min_length=1)],
        Field(description="One text or several.", examples=[["I took a bow."]]),
    ]


class ErrorResponse(BaseModel):
    error: Annotated[str, Field(description="What was found, and what was expected.")]
