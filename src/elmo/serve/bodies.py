"""What requests and answers look like: checked on the way in, and described in /openapi.json."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _be_unicode(text: str) -> str:
    """Refuse half a character, which JSON can write but no answer can hold."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a surrogate without its other half is no text")
    return text


String = Annotated[str, AfterValidator(_be_unicode)]
Text = Annotated[
    String | list[String],
    Field(description="Raw text of any length, or the tokens of one sentence."),
]
Texts = Annotated[list[Text], Field(min_length=1, examples=[["I took a bow."]])]
Weight = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
LayerNumber = Annotated[int, Field(ge=0, le=99)]
Layer = Annotated[
    Literal["top", "average"] | LayerNumber | list[Weight],
    Field(description="One layer, their average, or a weight for each of them."),
]
Layers = Annotated[
    Literal["all", "top", "average"] | LayerNumber | list[Weight],
    Field(description="All layers, one of them, their average, or a weight for each of them."),
]
HowMany = Annotated[int, Field(ge=1, le=100)]


class Body(BaseModel):
    """A request: nothing unknown, and every value of the type that is asked for."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TextsBody(Body):
    """Texts to read."""

    texts: Texts


class EmbedBody(TextsBody):
    """Texts to embed."""

    layers: Layers = "average"


class SubstitutesBody(Body):
    """A place in a sentence."""

    sentence: Annotated[Text, Field(examples=["I took a bow."])]
    position: Annotated[
        int, Field(ge=0, le=1_000_000, examples=[3], description="The token, from 0.")
    ]
    k: HowMany = 10


class NeighborsBody(SubstitutesBody):
    """A word in its sentence."""

    layers: Layer = "top"
    any_word: Annotated[bool, Field(description="Not just occurrences of the same word.")] = False


class TextAnswer(BaseModel):
    """The tokens of a text, where they stand in it, and which of them are a sentence."""

    tokens: list[str]
    offsets: list[tuple[int, int]] | None
    sentences: list[tuple[int, int]]


class EmbeddedAnswer(TextAnswer):
    """A vector for each token; for `all` layers a list of such lists, layer 0 first."""

    vectors: list[list[float]] | list[list[list[float]]]


class EmbedAnswer(BaseModel):
    """One for each text."""

    texts: list[EmbeddedAnswer]


class ScoredSentenceAnswer(BaseModel):
    """Log-probabilities are natural, surprisals in bits; keys are forward, backward, combined."""

    tokens: list[str]
    offsets: list[tuple[int, int]] | None
    is_known: list[bool]
    log_probabilities: dict[str, list[float]]
    surprisals: dict[str, list[float]]
    edge_log_probabilities: Annotated[
        dict[str, float],
        Field(description="Forward: that the sentence ends; backward: that it begins."),
    ]
    sentence_log_probability: dict[str, float]
    perplexity: dict[str, float | None]


class ScoredAnswer(BaseModel):
    """The sentences of a text, and its perplexity in each reading."""

    sentences: list[ScoredSentenceAnswer]
    perplexity: dict[str, float | None]


class ScoreAnswer(BaseModel):
    """One for each text."""

    texts: list[ScoredAnswer]


class SubstituteAnswer(BaseModel):
    """A word and its natural log-probabilities: forward, backward, combined."""

    word: str
    log_probabilities: dict[str, float]


class SubstitutesAnswer(BaseModel):
    """The tokens of the sentence, and the words expected at the position, best first."""

    tokens: list[str]
    substitutes: list[SubstituteAnswer]


class OccurrenceAnswer(BaseModel):
    """An occurrence in the indexed text, and its cosine with the one that was asked for."""

    tokens: list[str]
    position: int
    similarity: float


class SimilarWordAnswer(BaseModel):
    """A word of the indexed text, and its cosine by spelling alone."""

    word: str
    similarity: float


class NeighborsAnswer(BaseModel):
    """The tokens of the sentence, and what is near the word, best first."""

    tokens: list[str]
    in_context: list[OccurrenceAnswer]
    without_context: list[SimilarWordAnswer]


class LabelledAnswer(TextAnswer):
    """A label for each token."""

    labels: list[str]


class PredictAnswer(BaseModel):
    """One for each text."""

    texts: list[LabelledAnswer]


class InfoAnswer(BaseModel):
    """What is served."""

    version: str
    model: Annotated[str, Field(description="As it was named when the server was started.")]
    layers: Annotated[int, Field(description="Layers of a vector, the token layer included.")]
    output_dim: int
    directions: list[str]
    parameters: int
    words: Annotated[int | None, Field(description="That can be predicted; none without a head.")]
    indexed_tokens: int | None
    tasks: list[str]
    limits: dict[str, float]


class HealthAnswer(BaseModel):
    """Whether requests are answered."""

    status: Literal["ok"]


class ErrorAnswer(BaseModel):
    """What was found, what was expected, what to do."""

    error: str
