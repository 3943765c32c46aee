"""Coreference: which words of a document mean the same person or thing.

The paper's model (Lee et al. 2017): every span up to some width is scored as a mention, the best
are kept, and each picks an antecedent among those before it, or none. Two things let a novel's
chapter fit: a first layer over [start; end; head; width] is computed for tokens and summed for
spans, which is the same, and few antecedents come to the feed-forward scorer, chosen by a bilinear
one (Lee et al. 2018). Metric: the mean F1 of MUC, B3 and CEAF-phi4. Data: CoNLL columns; GAP.
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
from elmo.settings import not_positive, raise_problems
from elmo.tasks.config import (
    CharsConfig,
    ElmoConfig,
    OptimiserConfig,
    TaskConfig,
    TrainConfig,
    WordsConfig,
    not_shares,
)
from elmo.tasks.coref.data import (
    Clusters,
    CorefDataConfig,
    Document,
    Span,
    cut,
    read_documents,
)
from elmo.tasks.coref.gap import answer, read_gap, score_answers
from elmo.tasks.coref.metrics import score_clusters
from elmo.tasks.coref.pruning import link, prune_spans
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.encoder import BiLstm
from elmo.tasks.task import Inventory, Task, TaskModel
from elmo.text.lines import LineFormat, split_line

# What is computed at once bounds the memory that a document takes, however long it is.
TOKENS_AT_ONCE, SPANS_AT_ONCE, ROWS_AT_ONCE = 4096, 8192, 1024
# Spans between a mention and its antecedent, told apart as far as these: 1, 2, 3, 4, 5-7, 8-15, ...
DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True, slots=True)
class CorefModelConfig:
    """The network."""

    dim: Annotated[int, "cells of a direction of the biLSTM"] = 200
    hidden_dim: Annotated[int, "of spans' vectors, and of the layers that score them"] = 150
    max_width: Annotated[int, "tokens of a span at most"] = 10
    spans_per_word: Annotated[float, "that are kept as mentions"] = 0.4
    max_antecedents: Annotated[int, "that are looked at closely, of each mention"] = 50
    lexical_dropout: Annotated[float, "of the biLSTM's input, ELMo's part included"] = 0.5
    dropout: Annotated[float, "of the biLSTM's output and of hidden layers"] = 0.2

    def __post_init__(self) -> None:
        """Check the numbers."""
        names = ("dim", "hidden_dim", "max_width", "spans_per_word", "max_antecedents")
        problems = not_positive(self, *names) + not_shares(self, "lexical_dropout", "dropout")
        raise_problems(self, problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class CorefConfig(TaskConfig):
    """All settings."""

    words: WordsConfig | None = field(default_factory=lambda: WordsConfig(is_trained=False))
    chars: CharsConfig | None = field(default_factory=lambda: CharsConfig(filters=((5, 100),)))
    elmo: ElmoConfig | None = field(default_factory=lambda: ElmoConfig(dropout=0.0))
    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig(halve_after=3))
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(n_epochs=40, patience=8, batch_size=1)
    )
    data: CorefDataConfig = field(default_factory=CorefDataConfig)
    model: CorefModelConfig = field(default_factory=CorefModelConfig)


@dataclass(frozen=True)
class TokenParts:
    """What each token adds to the vectors of spans that start, end or have their head there."""

    start: Tensor  # (N, S)
    end: Tensor  # (N, S)
    head: Tensor  # (N, S)
    weight: Tensor  # (N,): how much of a head the token is


@dataclass(frozen=True)
class Ranking:
    """The antecedents of each kept span; the first score, 0, is of none at all."""

    spans: list[Span]
    antecedents: Tensor  # (K, A): numbers of kept spans
    is_before: Tensor  # (K, A): false for what only fills the row
    scores: Tensor  # (K, 1 + A)


class SpanRanker(TaskModel[Document, Clusters]):
    """Span ranking, end to end."""

    def __init__(self, tokens: TokenVectors, config: CorefModelConfig) -> None:
        super().__init__(tokens)
        self._config = config
        self.encoder = BiLstm(tokens.input_dim, config.dim)
        width = self.encoder.output_dim + tokens.output_dim
        hidden = config.hidden_dim
        self.start = nn.Linear(width, hidden)
        self.end = nn.Linear(width, hidden, bias=False)
        self.head = nn.Linear(tokens.input_dim, hidden, bias=False)
        self.head_weight = nn.Linear(width, 1)
        self.width = nn.Embedding(config.max_width, hidden)
        self.mention = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.coarse = nn.Linear(hidden, hidden, bias=False)
        self.anaphor = nn.Linear(hidden, hidden)
        self.antecedent = nn.Linear(hidden, hidden, bias=False)
        self.likeness = nn.Linear(hidden, hidden, bias=False)
        self.distance = nn.Embedding(len(DISTANCES), hidden)
        self.pair = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        for table in (self.width, self.distance):
            nn.init.normal_(table.weight, std=0.1)  # as small as what they are added to

    def loss(self, examples: Sequence[Document]) -> Tensor:
        """How unlikely any right antecedent is, summed over a document's kept spans."""
        return torch.stack([self._loss(document) for document in examples]).mean()

    def predict(self, examples: Sequence[Document]) -> list[Clusters]:
        """The clusters of each document, in the order of the text."""
        return [self._predict(document) for document in examples]

    def _loss(self, document: Document) -> Tensor:
        ranking = self.rank(document.sentences)
        cluster_of = {
            span: number for number, spans in enumerate(document.clusters or ()) for span in spans
        }
        numbers = [cluster_of.get(span, -1) for span in ranking.spans]
        clusters = torch.tensor(numbers, device=ranking.scores.device)
        is_right = clusters[ranking.antecedents] == clusters[:, None]  # (K, A)
        is_right = is_right & (clusters[:, None] >= 0) & ranking.is_before
        has_none = ~is_right.any(1, keepdim=True)
        right = ranking.scores.masked_fill(~torch.cat([has_none, is_right], 1), -torch.inf)
        return (ranking.scores.logsumexp(1) - right.logsumexp(1)).sum()

    def _predict(self, document: Document) -> Clusters:
        ranking = self.rank(document.sentences)
        places = ranking.scores.argmax(1)
        chosen = ranking.antecedents.gather(1, (places - 1).clamp_min(0)[:, None])[:, 0]
        pairs = zip(places.tolist(), chosen.tolist(), strict=True)
        antecedents = [number if place else None for place, number in pairs]
        return [[ranking.spans[k] for k in cluster] for cluster in link(antecedents)]

    def rank(self, sentences: Sequence[Sequence[str]]) -> Ranking:
        """The kept spans of a document, and what each may refer to."""
        parts = self._read(sentences)
        spans = list_spans(list(map(len, sentences)), self._config.max_width)
        spans = spans.to(parts.weight.device)
        with torch.no_grad():  # only kept spans learn
            blocks = torch.split(spans, SPANS_AT_ONCE, dim=1)
            scores = torch.cat(
                [self._mention_scores(self._vectors(parts, block, rate=0)) for block in blocks]
            )
        n_kept = max(1, int(self._config.spans_per_word * len(parts.weight)))
        spans = spans[:, prune_spans(spans.cpu().numpy(), scores.cpu().numpy(), n_kept)]
        rate = self._config.dropout if self.training else 0.0
        vectors = self._vectors(parts, spans, rate)  # (K, S)
        mention_scores = self._mention_scores(vectors)
        rows = torch.arange(len(vectors), device=vectors.device)
        ranked = [
            self._rank_rows(some, vectors, mention_scores, rate)
            for some in torch.split(rows, ROWS_AT_ONCE)
        ]
        kept = [(first, last + 1) for first, last in spans.T.tolist()]
        return Ranking(kept, *(torch.cat(tensors) for tensors in zip(*ranked, strict=True)))

    def _read(self, sentences: Sequence[Sequence[str]]) -> TokenParts:
        """Each sentence by itself, those of like length at once."""
        lengths = [len(tokens) for tokens in sentences]
        stops = list(accumulate(lengths))
        groups = group_by_length(lengths, TOKENS_AT_ONCE)
        read = [self._read_group([sentences[k] for k in group]) for group in groups]
        places = [place for k in chain(*groups) for place in range(stops[k] - lengths[k], stops[k])]
        order = torch.tensor(places, device=self.tokens.device).argsort()
        return TokenParts(*(torch.cat(tensors)[order] for tensors in zip(*read, strict=True)))

    def _read_group(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        batch = self.tokens.read(sentences)
        x = dropout(self.tokens(batch), self._config.lexical_dropout, self.training)
        hidden = self.tokens.add_at_output(self.encoder(x, batch.lengths), batch)
        hidden, x = hidden[batch.mask], x[batch.mask]  # (N, H), (N, D)
        hidden = dropout(hidden, self._config.dropout, self.training)
        return self.start(hidden), self.end(hidden), self.head(x), self.head_weight(hidden)[:, 0]

    def _vectors(self, parts: TokenParts, spans: Tensor, rate: float) -> Tensor:
        """Spans' vectors, (M, S); a head is a weighted mean of a span's words."""
        firsts, lasts = spans
        places = firsts[:, None] + torch.arange(self._config.max_width, device=firsts.device)
        is_outside = places > lasts[:, None]  # (M, W)
        places = places.clamp_max(len(parts.weight) - 1)
        weights = parts.weight[places].masked_fill(is_outside, -torch.inf).softmax(1)
        heads = torch.einsum("mw,mws->ms", weights, parts.head[places])
        widths = self.width(lasts - firsts)
        vectors = (parts.start[firsts] + parts.end[lasts] + heads + widths).relu()
        return dropout(vectors, rate, rate > 0)

    def _mention_scores(self, vectors: Tensor) -> Tensor:
        scores: Tensor = self.mention(vectors)[:, 0]
        return scores

    def _rank_rows(
        self, rows: Tensor, vectors: Tensor, mention_scores: Tensor, rate: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The antecedents of some kept spans (R, A), which come before, and scores (R, 1 + A)."""
        n_antecedents = min(self._config.max_antecedents, len(vectors))
        queries = self.coarse(vectors[rows])  # (R, S)
        with torch.no_grad():
            coarse = queries @ vectors.T + mention_scores  # (R, K)
            is_later = torch.arange(len(vectors), device=rows.device) >= rows[:, None]
            coarse = coarse.masked_fill(is_later, -torch.inf)
            antecedents = coarse.topk(n_antecedents, dim=1).indices  # (R, A)
        is_before = antecedents < rows[:, None]
        others = vectors[antecedents]  # (R, A, S)
        scores = (
            mention_scores[rows][:, None]
            + mention_scores[antecedents]
            + torch.einsum("rs,ras->ra", queries, others)
            + self._pair_scores(rows, antecedents, vectors, others, rate)
        ).masked_fill(~is_before, -torch.inf)
        none = scores.new_zeros(len(rows), 1)
        return antecedents, is_before, torch.cat([none, scores], dim=1)

    def _pair_scores(
        self, rows: Tensor, antecedents: Tensor, vectors: Tensor, others: Tensor, rate: float
    ) -> Tensor:
        """(R, A): a feed-forward network over [span; antecedent; their product; distance]."""
        bounds = torch.tensor(DISTANCES[1:], device=rows.device)
        distances = torch.bucketize(rows[:, None] - antecedents, bounds, right=True)
        hidden = (
            self.anaphor(vectors[rows])[:, None]
            + self.antecedent(vectors)[antecedents]
            + self.likeness(vectors[rows][:, None] * others)
            + self.distance(distances)
        ).relu()
        scores: Tensor = self.pair(dropout(hidden, rate, rate > 0))[..., 0]
        return scores


def group_by_length(lengths: Sequence[int], n_at_most: int) -> list[list[int]]:
    """Numbers of rows that are padded together, longest first: little of them is padding.

    A row is at least half as long as its group's longest, and all take so many places at most, one
    that is longer aside.
    """
    groups: list[list[int]] = []
    longest = 0
    for number in sorted(range(len(lengths)), key=lambda k: -lengths[k]):
        is_full = groups and (len(groups[-1]) + 1) * longest > n_at_most
        if is_full or 2 * lengths[number] < longest or not groups:
            groups.append([])
            longest = lengths[number]
        groups[-1].append(number)
    return groups


def list_spans(lengths: Sequence[int], max_width: int) -> Tensor:
    """First and last token of every span that lies within a sentence, (2, M)."""
    sentences = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    firsts = torch.arange(len(sentences))[:, None].expand(-1, max_width)  # (N, W)
    lasts = firsts + torch.arange(max_width)
    is_within = lasts < len(sentences)
    ends_in = sentences[lasts.clamp_max(len(sentences) - 1)]
    is_within &= ends_in == sentences[:, None]
    return torch.stack([firsts[is_within], lasts[is_within]])


class Coref(Task[CorefConfig, Document, Clusters]):
    """Coreference."""

    name = "coref"
    metric = "f1"

    def defaults(self) -> CorefConfig:
        """As the paper's, with fewer antecedents."""
        return CorefConfig()

    def read(self, path: Path, config: CorefConfig, *, is_training: bool) -> list[Document]:
        """Documents in columns, in pieces to learn from; or GAP's passages (.tsv), to measure."""
        with needs_extra("coref"):
            import scipy  # noqa: F401  (what is read is scored: better to know now)

        if ".tsv" in path.suffixes:
            if is_training:
                raise DataError(
                    f"{path}: GAP's table, expected documents in CoNLL columns, as a passage says "
                    "only what one pronoun refers to; train on others, and evaluate on this one"
                )
            return read_gap(path)
        documents = read_documents(path, config.data)
        if not is_training:
            return documents
        longest = config.data.max_training_tokens
        return [piece for document in documents for piece in cut(document, longest)]

    def read_text(
        self, lines: Iterable[str], line_format: LineFormat = "paragraphs"
    ) -> Iterator[Document]:
        """The whole text is one document."""
        sentences = (s.tokens for line in lines for s in split_line(line, line_format))
        document = Document("text", tuple(map(tuple, sentences)))
        if document.sentences:
            yield document

    def sentences(self, example: Document) -> Sequence[Sequence[str]]:
        """All of the document."""
        return example.sentences

    def unit(self, example: Document) -> str:
        """A document is in or out with all its pieces."""
        return example.name

    def inventory(self, examples: Sequence[Document], config: CorefConfig) -> Inventory:
        """Nothing."""
        return {}

    def build(self, config: CorefConfig, tokens: TokenVectors, inventory: Inventory) -> SpanRanker:
        """The network at its start values."""
        return SpanRanker(tokens, config.model)

    def score(
        self, examples: Sequence[Document], predictions: Sequence[Clusters]
    ) -> dict[str, float]:
        """MUC, B3, CEAF-phi4 and their mean; of GAP's passages, GAP's scores."""
        pairs = list(zip(examples, predictions, strict=True))
        answers = [each for example, found in pairs for each in answer(example, found)]
        if answers:
            return score_answers(answers)
        return score_clusters(
            [
                ([frozenset(spans) for spans in e.clusters or ()], [frozenset(s) for s in found])
                for e, found in pairs
            ]
        )

    def show(self, example: Document, prediction: Clusters) -> str:
        """A cluster a line."""
        tokens = example.tokens
        lines = (" | ".join(" ".join(tokens[a:b]) for a, b in spans) for spans in prediction)
        return "\n".join(lines) or "no two mentions of the same"

    def to_mapping(self, example: Document, prediction: Clusters) -> dict[str, Any]:
        """Sentences, and clusters of mentions with their places among all tokens."""
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
