"""Streams: the corpus as endless rows, cut into batches without padding.

In: a `TokenCache` and the number of a step. Out: the `StreamBatch` of that step, which depends on
this number alone, so that a run can resume at any step. Each epoch has all documents in its own
random order; row b of B reads the b-th of B equal parts of it, then continues with its part of the
next epoch. While the batch size grows, the rows take turns: each step reads every n-th row.
Shapes: B rows, T steps, N = T * B packed tokens.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.models.model_folder import Model
from elmo.network.config import Direction
from elmo.pretraining.corpus import TokenCache
from elmo.text.batches import marker_numbers, number_words
from elmo.text.characters import Marker, Word
from elmo.text.vocabulary import BEGIN, END, Vocabulary
from elmo.text.word_encoder import WordEncoder


@dataclass(frozen=True)
class StreamBatch:
    """Packed tokens to read and to predict, each direction in its own reading order."""

    char_ids: Tensor  # (U, C), the distinct words of all directions
    index: tuple[Tensor, ...]  # per direction (N,), the row of char_ids that is read
    targets: tuple[Tensor, ...]  # per direction (N,), the vocabulary id of the output word
    resets: tuple[Tensor, ...] | None  # per direction (N,), true: reset the state before the token
    batch_sizes: list[int]

    def to(self, device: torch.device | str) -> "StreamBatch":
        """The same batch on another device."""
        return StreamBatch(
            self.char_ids.to(device),
            tuple(index.to(device) for index in self.index),
            tuple(targets.to(device) for targets in self.targets),
            None if self.resets is None else tuple(reset.to(device) for reset in self.resets),
            self.batch_sizes,
        )


@dataclass(frozen=True)
class InputOutputEncoder:
    """Encodes words for a language model: characters as input, vocabulary ids as output."""

    vocabulary: Vocabulary
    word_encoder: WordEncoder

    @staticmethod
    def of(model: Model) -> "InputOutputEncoder":
        """The encoder of a model that predicts words."""
        assert model.vocabulary is not None
        return InputOutputEncoder(model.vocabulary, model.bilm.word_encoder)

    def char_ids(self, words: Sequence[Word]) -> Tensor:
        """Characters of words, (U, C)."""
        return self.word_encoder.encode(words)

    def numbers(self, words: Sequence[Word]) -> npt.NDArray[np.int64]:
        """Vocabulary ids of words, (U,); the first two are the begin and the end marker."""
        return np.concatenate([[BEGIN, END], self.vocabulary.ids(words[2:])])  # type: ignore[arg-type]


def pack_sentences(
    sentences: Sequence[Sequence[str]], encoder: InputOutputEncoder, directions: Sequence[Direction]
) -> StreamBatch:
    """A batch of whole sentences for evaluation, each from its start; longest first."""
    known = marker_numbers()
    ordered = sorted(sentences, key=len, reverse=True)
    items = [[0, *number_words(words, known), 1] for words in ordered]
    lines = {"forward": items, "backward": [row[::-1] for row in items]}
    n_steps = len(ordered[0]) + 1
    batch_sizes = [sum(len(words) + 1 > step for words in ordered) for step in range(n_steps)]
    return make_batch(
        known,
        [_pack(lines[direction], batch_sizes, 0) for direction in directions],
        [_pack(lines[direction], batch_sizes, 1) for direction in directions],
        None,
        batch_sizes,
        encoder,
    )


def make_batch(
    known: Mapping[Word, int],
    inputs: Sequence[npt.NDArray[np.int64]],
    targets: Sequence[npt.NDArray[np.int64]],
    resets: Sequence[npt.NDArray[np.int64]] | None,
    batch_sizes: list[int],
    encoder: InputOutputEncoder,
) -> StreamBatch:
    """A batch of packed tokens, which are given as indices of the words in `known`."""
    words = list(known)
    # Words that are only predicted need no characters.
    is_read = np.zeros(len(words), dtype=bool)
    is_read[np.concatenate(inputs)] = True
    place = np.cumsum(is_read) - 1
    numbers = encoder.numbers(words)
    return StreamBatch(
        encoder.char_ids([words[number] for number in np.flatnonzero(is_read)]),
        tuple(torch.from_numpy(place[rows]) for rows in inputs),
        tuple(torch.from_numpy(numbers[rows]) for rows in targets),
        None if resets is None else tuple(torch.from_numpy(rows.astype(bool)) for rows in resets),
        batch_sizes,
    )


def _pack(
    rows: Sequence[Sequence[int]], batch_sizes: Sequence[int], first: int
) -> npt.NDArray[np.int64]:
    """Rows of descending length -> (N,), time first, starting with item `first` of each row."""
    return np.array(
        [row[first + step] for step, n in enumerate(batch_sizes) for row in rows[:n]],
        dtype=np.int64,
    )


# `mirrored`: the backward model reads the same sentences in the same order, each from its end, and
# carries its state over. `same_rows`: it reads each window from right to left, from a fresh state.
BackwardOrder = Literal["mirrored", "same_rows"]
StateReset = Literal["never", "document", "sentence"]


@dataclass(frozen=True)
class _Piece:
    """Positions [start, stop) of a sentence; a sentence of n words has n + 1 positions."""

    sentence: int
    start: int
    stop: int
    resets_before: bool  # read from the left, the state is reset before the first position
    resets_after: bool  # read from the right, the state is reset before the last position


@dataclass(frozen=True)
class _Line:
    """The inputs and targets of one direction of one row, as indices of known words."""

    inputs: list[int]
    targets: list[int]
    resets: list[bool]


@dataclass(frozen=True)
class _Stage:
    """Steps with the same batch size: in every `n_turns` steps, each row reads one window."""

    first_step: int
    first_window: int
    n_turns: int


class Streams:
    """The batches of a training run, by the number of the step."""

    def __init__(
        self,
        cache: TokenCache,
        encoder: InputOutputEncoder,
        *,
        batch_size: int,
        bptt_length: int,
        seed: int,
        backward: BackwardOrder,
        reset: StateReset,
        initial_batch_size: int | None = None,
        growth_interval: int = 1,
        directions: Sequence[Direction] = ("forward", "backward"),
    ) -> None:
        self.batch_size = batch_size
        self.bptt_length = bptt_length
        self._stages = _plan_stages(
            batch_size // (initial_batch_size or batch_size), growth_interval
        )
        self._cache = cache
        self._encoder = encoder
        self._seed = seed
        self._backward = backward
        self._reset = reset
        self._directions = directions
        # Two epochs are in use while rows pass from one to the next.
        self._documents_of = lru_cache(maxsize=2)(self._shuffle_documents)
        # The last sentence of a row's window may be the first of its next window.
        self._words = lru_cache(maxsize=4 * batch_size)(cache.sentence)

    @property
    def n_positions(self) -> int:
        """Positions of an epoch: every word, and the end of every sentence."""
        return int(self._cache.positions[-1])

    def n_epochs_read(self, step: int) -> float:
        """The number of epochs read before this step."""
        stage = self._stage(step)
        n_windows = stage.first_window + (step - stage.first_step) / stage.n_turns
        return n_windows * self.bptt_length * self.batch_size / self.n_positions

    def n_steps(self, n_epochs: float) -> int:
        """The number of steps that read at least `n_epochs` epochs."""
        n_windows = n_epochs * self.n_positions / (self.bptt_length * self.batch_size)
        stage = [each for each in self._stages if each.first_window <= n_windows][-1]
        return stage.first_step + math.ceil((n_windows - stage.first_window) * stage.n_turns)

    def rows(self, step: int) -> slice:
        """The rows that are read in this step."""
        stage = self._stage(step)
        return slice((step - stage.first_step) % stage.n_turns, self.batch_size, stage.n_turns)

    def batch(self, step: int, part: slice = slice(None)) -> StreamBatch:
        """The batch of a step, or of a part of its rows."""
        known = marker_numbers()
        stage = self._stage(step)
        window = stage.first_window + (step - stage.first_step) // stage.n_turns
        rows = range(self.batch_size)[self.rows(step)][part]
        lines = [self._read_row(row, window, known) for row in rows]
        by_direction = list(zip(*lines, strict=True))
        return make_batch(
            known,
            [_time_first([line.inputs for line in direction]) for direction in by_direction],
            [_time_first([line.targets for line in direction]) for direction in by_direction],
            [_time_first([line.resets for line in direction]) for direction in by_direction],
            [len(lines)] * self.bptt_length,
            self._encoder,
        )

    def _stage(self, step: int) -> _Stage:
        return [stage for stage in self._stages if stage.first_step <= step][-1]

    def _read_row(self, row: int, window: int, known: dict[Word, int]) -> list[_Line]:
        """A window of one row, in all directions."""
        pieces = list(self._window(row, window))
        # The items that each piece reads, then the one that it only predicts.
        forward: list[list[Word]] = []
        mirrored: list[list[Word]] = []
        for piece in pieces:
            words = self._words(piece.sentence)
            items: list[Word] = [Marker.BEGIN_SENTENCE, *words, Marker.END_SENTENCE]
            forward.append(items[piece.start : piece.stop + 1])
            mirrored.append(items[::-1][piece.start : piece.stop + 1])
        before = [piece.resets_before for piece in pieces]
        lines = {"forward": _walk(forward, before, known)}
        if self._backward == "mirrored":
            lines["backward"] = _walk(mirrored, before, known)
        else:
            from_right = [items[::-1] for items in reversed(forward)]
            after = [piece.resets_after for piece in reversed(pieces)]
            lines["backward"] = _walk(from_right, [True, *after[1:]], known)
        return [lines[direction] for direction in self._directions]

    def _window(self, row: int, number: int) -> Iterator[_Piece]:
        """The parts of sentences in a window of one row."""
        part_start = row * self.n_positions // self.batch_size
        part_length = (row + 1) * self.n_positions // self.batch_size - part_start
        position, end = number * self.bptt_length, (number + 1) * self.bptt_length
        while position < end:
            epoch, offset = divmod(position, part_length)
            n_read = min(end - position, part_length - offset)
            yield from self._read_epoch(epoch, part_start + offset, part_start + offset + n_read)
            position += n_read

    def _read_epoch(self, epoch: int, start: int, stop: int) -> Iterator[_Piece]:
        """The pieces at positions [start, stop) of an epoch."""
        documents, ends = self._documents_of(epoch)
        rank = int(np.searchsorted(ends, start, side="right"))
        while start < stop:
            end = int(ends[rank])
            first, last = self._cache.documents[documents[rank] :][:2].tolist()
            shift = int(self._cache.positions[last]) - end
            yield from self._read_document(first, last, start + shift, min(stop, end) + shift)
            start, rank = end, rank + 1

    def _read_document(self, first: int, last: int, start: int, stop: int) -> Iterator[_Piece]:
        """The pieces at positions [start, stop) of the cache, in the sentences [first, last)."""
        bounds = self._cache.positions[first : last + 1]
        number = int(np.searchsorted(bounds, start, side="right")) - 1
        while start < stop:
            begin, end = bounds[number : number + 2].tolist()
            until = min(stop, end)
            yield _Piece(
                first + number,
                start - begin,
                until - begin,
                resets_before=start == begin and self._resets(number == 0),
                resets_after=until == end and self._resets(first + number + 1 == last),
            )
            start, number = until, number + 1

    def _resets(self, is_document_edge: bool) -> bool:
        """Whether the state is reset at this sentence boundary."""
        return self._reset == "sentence" or (self._reset == "document" and is_document_edge)

    def _shuffle_documents(self, epoch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The documents in this epoch's order, and the position where each of them ends."""
        bounds = self._cache.positions[self._cache.documents]
        documents = np.random.default_rng((self._seed, epoch)).permutation(len(bounds) - 1)
        return documents, np.cumsum(np.diff(bounds)[documents])


def _plan_stages(n_turns: int, growth_interval: int) -> list[_Stage]:
    """Stages of `growth_interval` steps, rounded up to whole windows, each with half the turns."""
    stages, step, window = [], 0, 0
    while n_turns > 1:
        stages.append(_Stage(step, window, n_turns))
        n_windows = math.ceil(growth_interval / n_turns)
        step, window = step + n_windows * n_turns, window + n_windows
        n_turns //= 2
    return [*stages, _Stage(step, window, 1)]


def _walk(
    segments: Sequence[Sequence[Word]], resets: Sequence[bool], known: dict[Word, int]
) -> _Line:
    """Read segment after segment; each item predicts the next one of its segment."""
    line = _Line([], [], [])
    for items, is_reset in zip(segments, resets, strict=True):
        places = number_words(items, known)
        line.inputs.extend(places[:-1])
        line.targets.extend(places[1:])
        line.resets.extend([is_reset] + [False] * (len(places) - 2))
    return line


def _time_first(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    """B rows of T -> (T * B,)."""
    return np.array(rows, dtype=np.int64).T.reshape(-1)
