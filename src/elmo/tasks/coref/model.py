"""Coreference resolution: clusters of mentions of the same entity.

The paper's model (Lee et al. 2017): every span up to a maximum width is scored as a mention, the
best are kept, and each chooses an antecedent among those before it, or none. Two changes bound the
memory for long documents: the first layer over [start; end; head; width] is computed for tokens and
summed for spans, which is equivalent, and a bilinear scorer selects the antecedents that the
feed-forward scorer sees (coarse to fine, Lee et al. 2018). The features of a pair also include its
distance, whether its speakers are the same, and the document's genre, if the data has them. Data:
data.py, gap.py. Metrics: metrics.py, gap.py.
Shapes: N tokens, M spans, K kept spans, A antecedents, W widest span, S width of a span's vector.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from elmo.errors import DataError, needs_extra
from elmo.settings import Dim, PositiveFloat, PositiveInt, Rate, checked
from elmo.tasks.config import (
    CharsConfig,
    ElmoConfig,
    OptimizerConfig,
    TaskConfig,
    TrainConfig,
    WordsConfig,
)
from elmo.tasks.coref.data import (
    Clusters,
    CorefDataConfig,
    Document,
    Span,
    cut,
    read_documents,
)
from elmo.tasks.coref.gap import decide, read_gap, score_decisions
from elmo.tasks.coref.metrics import score_clusters
from elmo.tasks.coref.spans import build_clusters, list_spans, prune_spans
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.lstm import BiLSTM
from elmo.tasks.task import Task, TaskModel, Vocabularies
from elmo.text.batches import batches_by_length
from elmo.text.lines import LineFormat, split_line

# Block sizes, which bound the memory for a document of any length.
TOKENS_AT_ONCE, SPANS_AT_ONCE, ROWS_AT_ONCE = 4096, 8192, 1024
# Lower bounds of the buckets of distances, in spans, from a mention to its antecedent.
DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class CorefModelConfig:
    """Sizes and dropout of the network."""

    dim: Annotated[Dim, "cells per direction of the biLSTM"] = 200
    hidden_dim: Annotated[Dim, "size of span vectors and of the hidden layers that score them"] = (
        150
    )
    max_width: Annotated[PositiveInt, "maximum tokens of a span"] = 10
    spans_per_word: Annotated[PositiveFloat, "candidate mentions kept, per word"] = 0.4
    max_antecedents: Annotated[PositiveInt, "antecedents scored per mention"] = 50
    lexical_dropout: Annotated[Rate, "dropout of the biLSTM's input, with ELMo's vectors"] = 0.5
    dropout: Annotated[Rate, "dropout of the biLSTM's output and of hidden layers"] = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class CorefConfig(TaskConfig):
    """All settings."""

    words: WordsConfig | None = field(default_factory=lambda: WordsConfig(is_trained=False))
    chars: CharsConfig | None = field(default_factory=lambda: CharsConfig(filters=((5, 100),)))
    elmo: ElmoConfig | None = field(default_factory=lambda: ElmoConfig(dropout=0.0))
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr_plateau_patience=3)
    )
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(n_epochs=40, patience=8, batch_size=1)
    )
    data: CorefDataConfig = field(default_factory=CorefDataConfig)
    model: CorefModelConfig = field(default_factory=CorefModelConfig)


@dataclass(frozen=True)
class TokenParts:
    """The contribution of each token to the vectors of spans, as their start, end or head."""

    start: Tensor  # (N, S)
    end: Tensor  # (N, S)
    head: Tensor  # (N, S)
    weight: Tensor  # (N,): attention score as a head


@dataclass(frozen=True)
class Ranking:
    """The candidate antecedents of each kept span; the first score, 0, is for no antecedent."""

    spans: list[Span]
    antecedents: Tensor  # (K, A): indices of kept spans
    is_before: Tensor  # (K, A): false for padding
    scores: Tensor  # (K, 1 + A)


@dataclass(frozen=True)
class KeptSpans:
    """Spans that may be mentions, in the order of the text."""

    vectors: Tensor  # (K, S)
    scores: Tensor  # (K,): as mentions
    speakers: Tensor  # (K,): 0 if unknown
    genre: Tensor  # scalar, of the document; 0 if unknown


class Scorer(nn.Module):
    """A feed-forward scorer: ReLU layers and one output."""

    def __init__(self, dim: int, n_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_layers))
        self.output = nn.Linear(dim, 1)

    def forward(self, x: Tensor, rate: float) -> Tensor:
        """(..., S) -> (...), with dropout `rate` after each layer."""
        for layer in self.layers:
            x = dropout(layer(x).relu(), rate, rate > 0)
        scores: Tensor = self.output(x)[..., 0]
        return scores


class SpanRanker(TaskModel[Document, Clusters]):
    """End-to-end span ranking."""

    def __init__(
        self, tokens: TokenVectors, config: CorefModelConfig, genres: Sequence[str] = ()
    ) -> None:
        super().__init__(tokens)
        self._config = config
        self._genre_ids = {genre: number for number, genre in enumerate(genres, start=1)}
        self.encoder = BiLSTM(tokens.input_dim, config.dim)
        width = self.encoder.output_dim + tokens.output_dim
        hidden = config.hidden_dim
        self.start = nn.Linear(width, hidden)
        self.end = nn.Linear(width, hidden, bias=False)
        self.head = nn.Linear(tokens.input_dim, hidden, bias=False)
        self.head_weight = nn.Linear(width, 1)
        self.width = nn.Embedding(config.max_width, hidden)
        self.mention = Scorer(hidden, n_layers=2)
        self.coarse = nn.Linear(hidden, hidden, bias=False)
        self.anaphor = nn.Linear(hidden, hidden)
        self.antecedent = nn.Linear(hidden, hidden, bias=False)
        self.similarity = nn.Linear(hidden, hidden, bias=False)
        self.distance = nn.Embedding(len(DISTANCES), hidden)
        self.speaker = nn.Embedding(3, hidden)  # unknown, the same, another
        self.genre = nn.Embedding(1 + len(genres), hidden)  # 0: unknown
        self.pair = Scorer(hidden, n_layers=1)  # its first layer is the sum in _pair_scores
        for table in (self.width, self.distance, self.speaker, self.genre):
            nn.init.normal_(table.weight, std=0.1)  # the scale of the vectors they are added to

    def loss(self, examples: Sequence[Document]) -> Tensor:
        """The negative log-likelihood of gold antecedents, summed over spans, mean of documents."""
        return torch.stack([self._loss(document) for document in examples]).mean()

    def predict(self, examples: Sequence[Document]) -> list[Clusters]:
        """The clusters of each document."""
        return [self._predict(document) for document in examples]

    def _loss(self, document: Document) -> Tensor:
        ranking = self.rank(document)
        cluster_of = {
            span: number for number, spans in enumerate(document.clusters or ()) for span in spans
        }
        numbers = [cluster_of.get(span, -1) for span in ranking.spans]
        clusters = torch.tensor(numbers, device=ranking.scores.device)
        is_gold = clusters[ranking.antecedents] == clusters[:, None]  # (K, A)
        is_gold = is_gold & (clusters[:, None] >= 0) & ranking.is_before
        has_none = ~is_gold.any(1, keepdim=True)
        gold = ranking.scores.masked_fill(~torch.cat([has_none, is_gold], 1), -torch.inf)
        return (ranking.scores.logsumexp(1) - gold.logsumexp(1)).sum()

    def _predict(self, document: Document) -> Clusters:
        ranking = self.rank(document)
        columns = ranking.scores.argmax(1)
        chosen = ranking.antecedents.gather(1, (columns - 1).clamp_min(0)[:, None])[:, 0]
        pairs = zip(columns.tolist(), chosen.tolist(), strict=True)
        antecedents = [number if column else None for column, number in pairs]
        return [[ranking.spans[k] for k in cluster] for cluster in build_clusters(antecedents)]

    def rank(self, document: Document) -> Ranking:
        """The kept spans of a document, and the scores of their candidate antecedents."""
        parts = self._encode(document.sentences)
        spans = list_spans(list(map(len, document.sentences)), self._config.max_width)
        spans = spans.to(parts.weight.device)
        with torch.no_grad():  # only kept spans have gradients
            blocks = torch.split(spans, SPANS_AT_ONCE, dim=1)
            scores = torch.cat(
                [self.mention(self._vectors(parts, block, rate=0), rate=0) for block in blocks]
            )
        n_kept = max(1, int(self._config.spans_per_word * len(parts.weight)))
        spans = spans[:, prune_spans(spans.cpu().numpy(), scores.cpu().numpy(), n_kept)]
        rate = self._config.dropout if self.training else 0.0
        kept = self._keep(parts, spans, document, rate)
        rows = torch.arange(len(kept.vectors), device=kept.vectors.device)
        ranked = [self._rank_rows(block, kept, rate) for block in torch.split(rows, ROWS_AT_ONCE)]
        listed = [(first, last + 1) for first, last in spans.T.tolist()]
        return Ranking(listed, *(torch.cat(tensors) for tensors in zip(*ranked, strict=True)))

    def _keep(self, parts: TokenParts, spans: Tensor, document: Document, rate: float) -> KeptSpans:
        """The kept spans with the features that pairs are scored by."""
        vectors = self._vectors(parts, spans, rate)
        names = document.speakers or (None,) * len(parts.weight)
        numbers: dict[str | None, int] = {None: 0}
        speakers = [numbers.setdefault(name, len(numbers)) for name in names]
        genre = self._genre_ids.get(document.genre or "", 0)
        return KeptSpans(
            vectors,
            self.mention(vectors, rate),
            torch.tensor(speakers, device=spans.device)[spans[0]],
            torch.tensor(genre, device=spans.device),
        )

    def _encode(self, sentences: Sequence[Sequence[str]]) -> TokenParts:
        """Encode each sentence separately, in batches of similar length."""
        lengths = [len(tokens) for tokens in sentences]
        stops = list(accumulate(lengths))
        # Limits padding: a sentence is at least half as long as the longest of its batch.
        groups = list(batches_by_length(lengths, max_padded_tokens=TOKENS_AT_ONCE, min_ratio=0.5))
        encoded = [self._encode_batch([sentences[k] for k in group]) for group in groups]
        positions = [p for k in chain(*groups) for p in range(stops[k] - lengths[k], stops[k])]
        order = torch.tensor(positions, device=self.tokens.device).argsort()
        return TokenParts(*(torch.cat(tensors)[order] for tensors in zip(*encoded, strict=True)))

    def _encode_batch(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        batch = self.tokens.read(sentences)
        x = dropout(self.tokens(batch), self._config.lexical_dropout, self.training)
        hidden = self.tokens.add_at_output(self.encoder(x, batch.lengths), batch)
        hidden, x = hidden[batch.mask], x[batch.mask]  # (N, H), (N, D)
        hidden = dropout(hidden, self._config.dropout, self.training)
        return self.start(hidden), self.end(hidden), self.head(x), self.head_weight(hidden)[:, 0]

    def _vectors(self, parts: TokenParts, spans: Tensor, rate: float) -> Tensor:
        """The vectors of spans, (M, S); the head is a weighted mean of the span's words."""
        firsts, lasts = spans
        positions = firsts[:, None] + torch.arange(self._config.max_width, device=firsts.device)
        is_outside = positions > lasts[:, None]  # (M, W)
        positions = positions.clamp_max(len(parts.weight) - 1)
        weights = parts.weight[positions].masked_fill(is_outside, -torch.inf).softmax(1)
        heads = torch.einsum("mw,mws->ms", weights, parts.head[positions])
        widths = self.width(lasts - firsts)
        vectors = (parts.start[firsts] + parts.end[lasts] + heads + widths).relu()
        return dropout(vectors, rate, rate > 0)

    def _rank_rows(
        self, rows: Tensor, kept: KeptSpans, rate: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Candidate antecedents of some kept spans (R, A), their mask, and scores (R, 1 + A)."""
        vectors = kept.vectors
        n_antecedents = min(self._config.max_antecedents, len(vectors))
        queries = self.coarse(vectors[rows])  # (R, S)
        with torch.no_grad():
            coarse = queries @ vectors.T + kept.scores  # (R, K)
            is_later = torch.arange(len(vectors), device=rows.device) >= rows[:, None]
            coarse = coarse.masked_fill(is_later, -torch.inf)
            antecedents = coarse.topk(n_antecedents, dim=1).indices  # (R, A)
        is_before = antecedents < rows[:, None]
        others = vectors[antecedents]  # (R, A, S)
        scores = (
            kept.scores[rows][:, None]
            + kept.scores[antecedents]
            + torch.einsum("rs,ras->ra", queries, others)
            + self._pair_scores(rows, antecedents, kept, rate)
        ).masked_fill(~is_before, -torch.inf)
        none = scores.new_zeros(len(rows), 1)
        return antecedents, is_before, torch.cat([none, scores], dim=1)

    def _pair_scores(
        self, rows: Tensor, antecedents: Tensor, kept: KeptSpans, rate: float
    ) -> Tensor:
        """(R, A): a network over [span; antecedent; their product; distance; speakers; genre]."""
        bounds = torch.tensor(DISTANCES[1:], device=rows.device)
        distances = torch.bucketize(rows[:, None] - antecedents, bounds, right=True)
        own, others = kept.speakers[rows][:, None], kept.speakers[antecedents]  # (R, 1), (R, A)
        speakers = torch.where(own == others, 1, 2).masked_fill((own == 0) | (others == 0), 0)
        vectors = kept.vectors
        hidden = (
            self.anaphor(vectors[rows])[:, None]
            + self.antecedent(vectors)[antecedents]
            + self.similarity(vectors[rows][:, None] * vectors[antecedents])
            + self.distance(distances)
            + self.speaker(speakers)
            + self.genre(kept.genre)
        ).relu()
        scores: Tensor = self.pair(dropout(hidden, rate, rate > 0), rate)
        return scores


class Coref(Task[CorefConfig, Document, Clusters]):
    """Coreference resolution."""

    name = "coref"
    metric = "f1"

    def defaults(self) -> CorefConfig:
        """The paper's settings with fewer antecedents."""
        return CorefConfig()

    def read(self, path: Path, config: CorefConfig, *, is_training: bool) -> list[Document]:
        """Documents in columns, split into pieces for training; or GAP (.tsv), for evaluation."""
        with needs_extra("coref"):
            import scipy  # noqa: F401  (the metrics need it: fail before training)

        if ".tsv" in path.suffixes:
            if is_training:
                raise DataError(
                    f"{path}: a GAP table, which has no clusters to train on; expected documents "
                    "in CoNLL columns"
                )
            return read_gap(path)
        documents = read_documents(path, config.data)
        if not is_training:
            return documents
        longest = config.data.max_training_tokens
        return [piece for document in documents for piece in cut(document, longest)]

    def read_text(
        self,
        lines: Iterable[str],
        line_format: LineFormat = "paragraphs",
        config: CorefConfig | None = None,
    ) -> Iterator[Document]:
        """The whole text as one document."""
        sentences = (s.tokens for line in lines for s in split_line(line, line_format))
        document = Document("text", tuple(map(tuple, sentences)))
        if document.sentences:
            yield document

    def sentences(self, example: Document) -> Sequence[Sequence[str]]:
        """The sentences of the document."""
        return example.sentences

    def sampling_group(self, example: Document) -> str:
        """The pieces of a document are sampled together."""
        return example.name

    def vocabularies(self, examples: Sequence[Document], config: CorefConfig) -> Vocabularies:
        """The genres in the names of the documents."""
        return {"genres": sorted({example.genre for example in examples if example.genre})}

    def build(
        self, config: CorefConfig, tokens: TokenVectors, vocabularies: Vocabularies
    ) -> SpanRanker:
        """The network with initial weights."""
        return SpanRanker(tokens, config.model, vocabularies.get("genres", ()))

    def score(
        self, examples: Sequence[Document], predictions: Sequence[Clusters]
    ) -> dict[str, float]:
        """MUC, B3, CEAF-phi4 and their mean; for GAP, the scores of GAP's scorer."""
        pairs = list(zip(examples, predictions, strict=True))
        decisions = [each for example, found in pairs for each in decide(example, found)]
        if decisions:
            if any(example.pronoun is None for example in examples):
                raise DataError(
                    "passages of GAP and documents with clusters, expected one kind: they have "
                    "different metrics"
                )
            return score_decisions(decisions)
        return score_clusters(
            [
                ([frozenset(spans) for spans in e.clusters or ()], [frozenset(s) for s in found])
                for e, found in pairs
            ]
        )

    def show(self, example: Document, prediction: Clusters) -> str:
        """One cluster per line."""
        tokens = example.tokens
        lines = (" | ".join(" ".join(tokens[a:b]) for a, b in spans) for spans in prediction)
        return "\n".join(lines) or "no clusters"

    def to_mapping(self, example: Document, prediction: Clusters) -> dict[str, Any]:
        """Sentences, and clusters of mentions with token positions in the document."""
        tokens = example.tokens
        return {
            "document": example.name,
            "sentences": [list(sentence) for sentence in example.sentences],
            "clusters": [
                [{"start": a, "end": b, "text": " ".join(tokens[a:b])} for a, b in spans]
                for spans in prediction
            ],
        }


def build_task(name: str) -> Coref:
    """The task."""
    return Coref()
