"""Held-out perplexity of both language models.

In: sentences of words, each read from a fresh state, as in inference. Out: `Perplexity`: the
perplexity of each direction, by the full softmax whatever the training loss, and bits per
character, to compare models with different vocabularies.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from elmo.errors import CheckpointError, DataError
from elmo.files.text_files import find_text_files
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.softmax import Head
from elmo.pretraining.batches import InputOutputEncoder, pack_sentences
from elmo.pretraining.corpus import TokenCache
from elmo.text.batches import batches_by_length, windows
from elmo.text.lines import LineFormat, read_sentences
from elmo.text.vocabulary import UNKNOWN

POSITIONS_AT_ONCE = 4096
# Sentences are sorted by length within this many batches, so that a stream needs bounded memory.
BATCHES_SORTED = 32


@dataclass(frozen=True)
class Perplexity:
    """Perplexities and counts; None for a direction that the model does not have."""

    forward: float | None
    backward: float | None
    mean: float
    bits_per_character: float
    unknown_rate: float
    tokens: int
    tokens_per_second: float

    def describe(self) -> str:
        named = {"forward": self.forward, "backward": self.backward, "mean": self.mean}
        shown = [f"{value:.2f} {name}" for name, value in named.items() if value is not None]
        return ", ".join([*shown, f"{self.unknown_rate:.1%} unknown words"])


@torch.no_grad()
def measure(
    bilm: BiLM, head: Head, encoder: InputOutputEncoder, sentences: Iterable[Sequence[str]]
) -> Perplexity:
    """The perplexity of sentences and their ends; `mean` is the mean of both directions."""
    started_at = time.perf_counter()
    was_training = bilm.training
    bilm.eval()
    directions = bilm.config.directions
    totals = torch.zeros(len(directions), dtype=torch.float64)
    n_positions = n_tokens = n_unknown = n_characters = n_unknown_bytes = 0
    for some in _batches(sentences):
        totals += _nll_of_directions(bilm, head, encoder, some)
        words = [word for sentence in some for word in sentence]
        unknown = [
            word
            for word, number in zip(words, encoder.vocabulary.ids(words), strict=True)
            if number == UNKNOWN
        ]
        n_tokens += len(words)
        n_positions += len(words) + len(some)
        n_unknown += len(unknown)
        n_characters += sum(map(len, words)) + len(words)
        n_unknown_bytes += sum(len(word.encode("utf-8", "surrogatepass")) + 1 for word in unknown)
    bilm.train(was_training)
    if not n_tokens:
        raise DataError("no words, expected text to measure the perplexity of")
    perplexities = (totals / n_positions).exp().tolist()
    named = dict(zip(directions, perplexities, strict=True))
    # Unknown words also cost their bytes, under a uniform distribution over 256 values, so that a
    # small vocabulary has no advantage.
    spelling = n_unknown_bytes * 8 * math.log(2)
    nats = float(totals.mean()) + spelling
    return Perplexity(
        forward=named.get("forward"),
        backward=named.get("backward"),
        mean=sum(perplexities) / len(perplexities),
        bits_per_character=nats / math.log(2) / n_characters,
        unknown_rate=n_unknown / n_tokens,
        tokens=n_tokens,
        tokens_per_second=n_tokens / (time.perf_counter() - started_at),
    )


def measure_text(
    model: Model, texts: str | Sequence[str], lines: LineFormat = "paragraphs"
) -> Perplexity:
    """The perplexity of the text in files of any size."""
    if model.head is None or model.vocabulary is None:
        raise CheckpointError(
            "this model has no softmax, which measuring perplexity requires; give one with "
            "--softmax and --vocabulary, or train one with `elmo finetune`"
        )
    patterns = [texts] if isinstance(texts, str) else texts
    sentences = read_sentences(find_text_files(*patterns), lines)
    return measure(model.bilm, model.head, InputOutputEncoder.of(model), sentences)


def sample_sentences(cache: TokenCache, n_sentences: int | None) -> Iterator[list[str]]:
    """At most `n_sentences` evenly spaced sentences; None: all."""
    n_all = cache.counts.n_sentences
    n_chosen = min(n_all, n_sentences or n_all)
    for number in range(n_chosen):
        yield cache.sentence(number * n_all // n_chosen)


def _nll_of_directions(
    bilm: BiLM, head: Head, encoder: InputOutputEncoder, sentences: list[Sequence[str]]
) -> torch.Tensor:
    """The summed negative log-likelihood of each direction."""
    device = next(bilm.parameters()).device
    batch = pack_sentences(sentences, encoder, bilm.config.directions).to(device)
    layers, _ = bilm.run(
        bilm.token_vectors(batch.char_ids),
        batch.index,
        batch.batch_sizes,
        bilm.initial_state(len(sentences)),
    )
    return torch.stack(
        [
            head.nll(hidden, targets).sum(dtype=torch.float64)
            for hidden, targets in zip(layers[-1], batch.targets, strict=True)
        ]
    ).cpu()


def _batches(sentences: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Batches of sentences of similar length."""
    limit = BATCHES_SORTED * POSITIONS_AT_ONCE
    for window in windows(sentences, lambda words: len(words) + 1, limit):
        lengths = [len(words) + 1 for words in window]
        for batch in batches_by_length(lengths, max_tokens=POSITIONS_AT_ONCE, longest_first=False):
            yield [window[k] for k in batch]
