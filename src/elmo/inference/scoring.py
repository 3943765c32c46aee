"""Word probabilities of the forward and the backward language model, and of both combined.

In: sentences of tokens. Out: the log-probability of every word given all words before it, all after
it, and both (`ScoredSentence`); or the most probable words at one position (`Substitute`).
Shapes: B sentences, M predictions, N words, P projection, V words of the vocabulary, k substitutes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import CheckpointError, ConfigError
from elmo.inference.embedder import Embedder, Tokens, length_batches
from elmo.inference.long_sentences import CHUNK_TOKENS
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Context, Scored, ScoredSentence
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLMState, Packing
from elmo.network.softmax import Head
from elmo.text.batches import windows
from elmo.text.inputs import check_tokens
from elmo.text.tokenizer import Sentence
from elmo.text.vocabulary import BEGIN, END, RESERVED, UNKNOWN

# Sizes of blocks of logits that fit the processor's cache: positions, and words of the vocabulary.
ROWS_AT_ONCE = 256
WORDS_AT_ONCE = 4096
# Sentences are sorted by length in windows of this many tokens.
WINDOW_TOKENS = 20_000
SMALLEST = torch.finfo(torch.float32).tiny
# Maximum number of log-probabilities in memory at a time, for each context (32 MB).
MAX_LOG_PROBS = 8_000_000


@dataclass(frozen=True)
class Predictions:
    """The top-layer rows that predict words, per direction, in the order of the text.

    Forward, a sentence's predictions are its words and its end marker; backward, its begin marker
    and its words.
    """

    hidden: tuple[Tensor, ...]  # per direction (M, P)
    is_backward: tuple[bool, ...]
    first: Tensor  # (B,), the first row of each sentence
    last: Tensor  # (B,), the last row of each sentence
    state: BiLMState  # after the last word that each direction read

    def words(self) -> list[Tensor]:
        """The rows that predict words, per direction (N, P), in the order of the words."""
        found = []
        for rows, markers in zip(self.hidden, self._marker_rows(), strict=True):
            is_word = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
            is_word[markers] = False
            found.append(rows[is_word])
        return found

    def markers(self) -> list[Tensor]:
        """The rows that predict the boundary of each sentence, per direction (B, P)."""
        return [
            rows[markers] for rows, markers in zip(self.hidden, self._marker_rows(), strict=True)
        ]

    def at(self, positions: Sequence[int]) -> list[Tensor]:
        """The rows that predict the word at one position of each sentence, per direction (B, P)."""
        places = self.first + torch.tensor(positions, device=self.first.device)
        return [
            rows[places + is_backward]
            for rows, is_backward in zip(self.hidden, self.is_backward, strict=True)
        ]

    def _marker_rows(self) -> list[Tensor]:
        return [self.first if is_backward else self.last for is_backward in self.is_backward]


def predict(
    embedder: Embedder, sentences: Sequence[Tokens], state: BiLMState | None = None
) -> Predictions:
    """Run the biLM over sentences, from the given state or from zeros."""
    bilm = embedder.bilm
    is_backward = tuple(direction == "backward" for direction in bilm.config.directions)
    vectors, words, lengths = embedder.read(sentences)
    packing = Packing.of(lengths - 1, bilm.config.directions, words.device)
    # Backward, the prediction at a position is computed from the position after it.
    index = [
        words[packing.row, position + backward]
        for position, backward in zip(packing.position, is_backward, strict=True)
    ]
    before = (state or bilm.initial_state(len(sentences))).rows(packing.order)
    tops, after = _run(embedder, vectors, index, packing.batch_sizes, before)
    lengths = lengths.to(words.device)
    ends = torch.cumsum(lengths - 1, 0)
    first = ends - (lengths - 1)
    hidden = [torch.empty_like(top) for top in tops]
    for rows, top, position in zip(hidden, tops, packing.position, strict=True):
        rows[first[packing.row] + position] = top
    return Predictions(
        tuple(hidden), is_backward, first, ends - 1, after.rows(torch.argsort(packing.order))
    )


def _run(
    embedder: Embedder,
    vectors: Tensor,
    index: Sequence[Tensor],
    batch_sizes: Sequence[int],
    state: BiLMState,
) -> tuple[list[Tensor], BiLMState]:
    """The top layer of each direction, (M, P), in its own order."""
    # A single sentence may have any length, so it runs in chunks, with one token per step.
    is_alone = batch_sizes[0] == 1
    n_at_once = CHUNK_TOKENS if is_alone else len(index[0])
    tops: list[list[Tensor]] = []
    for start in range(0, len(index[0]), n_at_once):
        chunk = slice(start, start + n_at_once)
        steps = batch_sizes[chunk] if is_alone else batch_sizes
        layers, state = embedder.bilm.run(vectors, [rows[chunk] for rows in index], steps, state)
        tops.append(layers[-1])
    return [torch.cat(chunks) for chunks in zip(*tops, strict=True)], state


@dataclass(frozen=True)
class Substitute:
    """A word that fits a position, its log-probabilities there, and the score it is ranked by."""

    word: str
    log_probs: Mapping[Context, float]
    score: float


def combine(log_probs: Sequence[Tensor]) -> Tensor:
    """The combined log-probabilities of both directions (or the only one), each (N, V).

    The mean of the two, normalized over all words but the markers. The plain product would count
    word frequency twice: on held-out text it predicts words worse than one direction alone, while
    the mean predicts them better than either.
    """
    together = (log_probs[0] + log_probs[-1]) / 2
    together[:, [BEGIN, END]] = -torch.inf
    return together.log_softmax(-1)  # (N, V)


def fit(log_probs: Sequence[Tensor]) -> Tensor:
    """How well each word fits a position, (N, V), given both directions (or the only one).

    log P(word | left) + log P(word | right) - log P(word): Bayes' rule for two sides that are
    independent given the word. Without the last term function words come first everywhere
    (`python -m benchmarks.substitutes`, docs/scoring.md). P(word) is estimated by Zipf's law, as
    vocabularies are sorted by frequency.
    """
    scores = log_probs[0].clone()
    if len(log_probs) == 2:
        ranks = torch.arange(scores.shape[1], device=scores.device) + 1.0
        scores += log_probs[1] + ranks.log()
    scores[:, : len(RESERVED)] = -torch.inf  # not words, though the unknown word is predicted
    return scores


def log_probs_of(ids: Tensor, rows: Sequence[Tensor], head: Head) -> Tensor:
    """Log-probabilities of the words `ids` (N,) by direction, and combined: (directions + 1, N).

    `rows` are per direction (N, P). Equal to `combine`, but the logits of all words are never in
    memory at once.
    """
    fast = head.log_probs_of(rows, ids, n_skipped=len((BEGIN, END)))
    if fast is not None:
        return fast
    pieces = zip(*(torch.split(part, ROWS_AT_ONCE) for part in (ids, *rows)), strict=True)
    scores = [log_probs_in_blocks(some, piece, head) for some, *piece in pieces]
    return torch.cat([rows[0].new_zeros(len(rows) + 1, 0), *scores], dim=1)


def log_probs_in_blocks(ids: Tensor, rows: Sequence[Tensor], head: Head) -> Tensor:
    """Like `log_probs_of`, in PyTorch; one exponential, of half a logit, serves all three sums."""
    totals: list[Tensor] = []
    found = rows[0].new_zeros(len(rows) + 1, len(ids))
    first = 0
    for logits in zip(*(head.logits(hidden, WORDS_AT_ONCE) for hidden in rows), strict=True):
        last = first + logits[0].shape[1]
        here = ((ids >= first) & (ids < last)).nonzero().squeeze(-1)
        at = [each[here, ids[here] - first] for each in logits]
        found[:, here] = torch.stack([*at, (at[0] + at[-1]) / 2])
        highest = [each.amax(-1) for each in logits]
        roots = [
            (each - high[:, None]).div_(2).exp_()
            for each, high in zip(logits, highest, strict=True)
        ]
        sums = [_dot(root, root) for root in roots]
        if first == 0:
            roots[0][:, [BEGIN, END]] = 0.0
        sums.append(_dot(roots[0], roots[-1]))
        highest.append((highest[0] + highest[-1]) / 2)
        totals.append(torch.stack(sums).clamp_min_(SMALLEST).log_() + torch.stack(highest))
        first = last
    return found - torch.stack(totals).logsumexp(0)


def _dot(one: Tensor, two: Tensor) -> Tensor:
    """Dot products of rows, (N, V), (N, V) -> (N,)."""
    dots: Tensor = torch.linalg.vecdot(one, two)
    return dots


class Scorer:
    """Scores text with a model that has a softmax."""

    def __init__(self, embedder: Embedder, model: Model) -> None:
        if model.head is None or model.vocabulary is None:
            raise CheckpointError(
                "this model has no softmax, which predicting words requires; give one with "
                "softmax= and vocabulary=, or --softmax and --vocabulary"
            )
        if model.bilm.config.lstm.n_layers == 0:
            raise CheckpointError("this model has no LSTM layers; expected some to predict words")
        self._embedder = embedder
        self._head = model.head
        self._vocabulary = model.vocabulary
        self._directions = model.bilm.config.directions
        self._contexts: tuple[Context, ...] = (*self._directions, "combined")

    def score_texts(
        self, texts: Sequence[Sequence[Sentence]], state: str = "fresh"
    ) -> list[Scored]:
        """Score texts, given as their sentences; `state` as in `Elmo.score`."""
        if state not in ("fresh", "carry"):
            raise ConfigError(f"state {state!r} is unknown, expected 'fresh' or 'carry'")
        scored = iter(
            list(self.stream((sentence.tokens for text in texts for sentence in text), state))
        )
        return [
            Scored([replace(next(scored), offsets=sentence.offsets or None) for sentence in text])
            for text in texts
        ]

    def stream(self, sentences: Iterable[Tokens], state: str = "fresh") -> Iterator[ScoredSentence]:
        """Score any number of sentences, in order, in bounded memory."""
        encoder = self._embedder.bilm.word_encoder
        n_truncated = 0
        for scored in self._stream(sentences, state):
            n_truncated += encoder.count_truncated(scored.tokens)
            yield scored
        encoder.warn_truncated(n_truncated)

    @torch.inference_mode()
    def score(self, sentences: Sequence[Tokens]) -> list[ScoredSentence]:
        """Score sentences, each from a fresh state."""
        for words in sentences:
            check_tokens(words)
        found: dict[int, ScoredSentence] = {}
        for batch in length_batches(sentences):
            tokens = [sentences[k] for k in batch]
            scored = self._score(tokens, predict(self._embedder, tokens))
            found.update(zip(batch, scored, strict=True))
        return [found[k] for k in range(len(sentences))]

    @torch.inference_mode()
    def substitutes(self, occurrences: Sequence[Occurrence], k: int) -> list[list[Substitute]]:
        """The `k` words that fit each position best, given all other words; see `fit`."""
        if k < 1:
            raise ConfigError(f"k is {k}, expected at least 1")
        found: dict[int, list[Substitute]] = {}
        for batch in length_batches([occurrence.tokens for occurrence in occurrences]):
            predictions = predict(self._embedder, [occurrences[place].tokens for place in batch])
            rows = predictions.at([occurrences[place].position for place in batch])
            n_at_once = max(1, MAX_LOG_PROBS // len(self._vocabulary))
            pieces = zip(*(torch.split(hidden, n_at_once) for hidden in rows), strict=True)
            best = [words for piece in pieces for words in self._best(piece, k)]
            found.update(zip(batch, best, strict=True))
        return [found[place] for place in range(len(occurrences))]

    def _stream(self, sentences: Iterable[Tokens], state: str) -> Iterator[ScoredSentence]:
        if state == "carry":
            yield from self._score_carrying(sentences)
            return
        for window in windows(sentences, len, WINDOW_TOKENS):
            yield from self.score(window)

    def _score_carrying(self, sentences: Iterable[Tokens]) -> Iterator[ScoredSentence]:
        """Score sentences in order, each from the state after the previous one."""
        state: BiLMState | None = None
        for tokens in sentences:
            check_tokens(tokens)
            with torch.inference_mode():
                predictions = predict(self._embedder, [tokens], state)
                state = predictions.state
                scored = self._score([tokens], predictions)
            yield from scored

    def _score(self, sentences: Sequence[Tokens], predictions: Predictions) -> list[ScoredSentence]:
        ids = self._vocabulary.ids([word for tokens in sentences for word in tokens])
        by_context = self._score_words(predictions.words(), ids)
        markers = {"forward": END, "backward": BEGIN}
        boundaries = {
            direction: self._nll_of(rows, markers[direction])
            for direction, rows in zip(self._directions, predictions.markers(), strict=True)
        }
        ends = np.cumsum([len(tokens) for tokens in sentences])
        return [
            ScoredSentence(
                tokens=list(tokens),
                is_known=(ids[end - len(tokens) : end] != UNKNOWN).tolist(),
                log_probs={
                    context: scores[end - len(tokens) : end].copy()
                    for context, scores in by_context.items()
                },
                boundary_log_probs={
                    direction: -scores[k] for direction, scores in boundaries.items()
                },
            )
            for k, (tokens, end) in enumerate(zip(sentences, ends, strict=True))
        ]

    def _score_words(
        self, rows: Sequence[Tensor], ids: NDArray[np.int64]
    ) -> dict[Context, NDArray[np.float64]]:
        """Log-probabilities (N,) of the words `ids`, by context; rows are per direction (N, P)."""
        scores = log_probs_of(torch.from_numpy(ids).to(rows[0].device), rows, self._head)
        return dict(zip(self._contexts, scores.double().cpu().numpy(), strict=True))

    def _best(self, rows: Sequence[Tensor], k: int) -> list[list[Substitute]]:
        """The best words for each row; rows are per direction (N, P)."""
        each = [self._head.log_probs(hidden) for hidden in rows]  # (N, V)
        n_words = len(self._vocabulary) - len(RESERVED)
        best = fit(each).topk(min(k, n_words), dim=-1)  # (N, k)
        log_probs = [words.gather(1, best.indices) for words in [*each, combine(each)]]
        return [
            [
                Substitute(
                    self._vocabulary.words[number],
                    dict(zip(self._contexts, values, strict=True)),
                    score,
                )
                for number, values, score in zip(*row, strict=True)
            ]
            for row in zip(
                best.indices.tolist(),
                torch.stack(log_probs, dim=-1).tolist(),
                best.values.tolist(),
                strict=True,
            )
        ]

    def _nll_of(self, rows: Tensor, word: int) -> list[float]:
        targets = torch.full((len(rows),), word, device=rows.device)
        nll: list[float] = self._head.nll(rows, targets).double().tolist()
        return nll
