"""The biLM: a token layer, and a forward and a backward language model on top of it.

In: a `Batch` of sentences, or token vectors and their rows. Out: `BiLMOutput`: all layers
(L+1, B, T, 2P), the mask (B, T) and the state. Layer 0 is the token layer, once per direction.
Shapes: B sentences, T tokens with markers, N packed tokens, U distinct words, P projection,
L layers, R directions (two, or one).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from elmo.network import kernels
from elmo.network.char_cnn import CharCNN, Highway
from elmo.network.config import BiLMConfig
from elmo.network.lstm import LayerState, LstmLayer, run_layers
from elmo.text.batches import Batch
from elmo.text.characters import N_CHARACTERS
from elmo.text.word_encoder import FIRST_CHARACTER, Lexicon, LexiconConfig, WordEncoder


@dataclass(frozen=True)
class BiLMState:
    """The recurrent state of all layers and directions for each sentence."""

    hidden: Tensor  # (R, L, B, P)
    cell: Tensor  # (R, L, B, H)

    def rows(self, order: Tensor | slice) -> "BiLMState":
        """Select sentences by index or slice, in that order."""
        return BiLMState(self.hidden[:, :, order], self.cell[:, :, order])


@dataclass(frozen=True)
class BiLMOutput:
    """The output for a batch."""

    layers: Tensor  # (L+1, B, T, R*P), zero where padded
    mask: Tensor  # (B, T)
    state: BiLMState  # after each sentence's last token


@dataclass(frozen=True)
class Packing:
    """The positions of packed tokens in a padded batch, in the order of each direction."""

    row: Tensor  # (N,), the sentence
    position: tuple[Tensor, ...]  # R of (N,), the position in it
    order: Tensor  # (B,), the sentences by descending length
    batch_sizes: list[int]  # number of sentences running at each step

    @staticmethod
    def of(lengths: Tensor, directions: Sequence[str], device: torch.device) -> "Packing":
        """Pack sentences of the given lengths; the index tensors are moved to `device`.

        The packing is computed on the CPU, so that lengths on the CPU need no GPU synchronization.
        """
        lengths = lengths.cpu()
        order = torch.argsort(lengths, descending=True, stable=True)
        longest_first = lengths[order]
        steps = torch.arange(int(lengths.max()) if len(lengths) else 0, device="cpu")
        is_running = steps[:, None] < longest_first  # (T, B)
        step, rank = is_running.nonzero(as_tuple=True)  # (N,), (N,)
        from_end = longest_first[rank] - 1 - step
        position = {"forward": step, "backward": from_end}
        return Packing(
            order[rank].to(device),
            tuple(position[direction].to(device) for direction in directions),
            order.to(device),
            is_running.sum(1).tolist(),
        )


class BiLM(nn.Module):
    """A bidirectional language model without its softmax."""

    def __init__(self, config: BiLMConfig, lexicon: Lexicon | None = None) -> None:
        """Build the network; `lexicon` holds the word and character lists if the config has any."""
        super().__init__()
        self.config = config
        self.word_encoder = _build_word_encoder(config, lexicon or Lexicon())
        lists, lstm = config.lexicon or LexiconConfig(), config.lstm
        self.word_table = _build_word_table(lists)
        self.char_cnn = _build_char_cnn(config, lists)
        self.token_projection = _build_token_projection(config, lists)
        self.stacks = nn.ModuleDict(
            {
                f"{direction}_layers": nn.ModuleList(
                    LstmLayer(
                        input_dim=lstm.projection_dim,
                        dim=lstm.dim,
                        projection_dim=lstm.projection_dim,
                        cell_clip=lstm.cell_clip,
                        projection_clip=lstm.projection_clip,
                    )
                    for _ in range(lstm.n_layers)
                )
                for direction in config.directions
            }
        )

    @property
    def n_parameters(self) -> int:
        """The number of trained parameters, without the padding character's embedding (zero)."""
        n_all = kernels.count_numbers(self)
        return n_all - (0 if self.config.char_cnn is None else self.config.char_cnn.char_dim)

    def store_matrices(self, dtype: torch.dtype) -> None:
        """Store the large matrices, those of highway and LSTM layers, in `dtype`.

        Activations stay float32. The model can no longer be trained.
        """
        self.requires_grad_(False)
        for module in self.modules():
            if isinstance(module, Highway | LstmLayer):
                for weight in module.parameters():
                    if weight.ndim == 2:
                        weight.data = weight.data.to(dtype)

    def hold_packed(self) -> None:
        """Hold the large matrices only in the packed layout of the CPU kernels.

        They are unpacked to plain tensors when a parameter is accessed: to train, save or move it.
        """
        if not kernels.is_available() or any(
            each.device.type != "cpu" or each.dtype not in (torch.float32, torch.bfloat16)
            for each in self.parameters()
        ):
            return
        for module in self.modules():
            if isinstance(module, Highway):
                kernels.hold_packed_highway(module.transform, module.gate)
            elif isinstance(module, LstmLayer):
                kernels.hold_packed(module)

    def initial_state(self, n_sentences: int) -> BiLMState:
        """The initial state: zeros."""
        layers = (len(self.config.directions), self.config.lstm.n_layers, n_sentences)
        anything = next(self.parameters())
        return BiLMState(
            anything.new_zeros(*layers, self.config.lstm.projection_dim),
            anything.new_zeros(*layers, self.config.lstm.dim),
        )

    def hidden_matrices(self) -> dict[str, int]:
        """The hidden weights by parameter name, and the number of matrices stacked in each.

        The input and recurrent weights of an LSTM layer stack the matrices of its four gates.
        """
        n_blocks: dict[str, int] = {}
        for prefix, module in self.named_modules():
            if isinstance(module, LstmLayer):
                n_blocks |= {f"{prefix}.{name}_weight": 4 for name in ("input", "recurrent")}
                n_blocks[f"{prefix}.projection_weight"] = 1
            elif isinstance(module, nn.Linear):  # highways and projections
                n_blocks[f"{prefix}.weight"] = 1
        return n_blocks

    def token_layers(self) -> list[nn.Module]:
        """The layers that compute token vectors."""
        layers = (self.word_table, self.char_cnn, self.token_projection)
        return [layer for layer in layers if layer is not None]

    def token_vectors(self, char_ids: Tensor) -> Tensor:
        """Token vectors of words encoded by `word_encoder.encode`, (U, C) -> (U, P)."""
        parts = []
        if self.word_table is not None:
            parts.append(self.word_table(char_ids[:, 0]))  # (U, W)
            char_ids = char_ids[:, 1:]
        if self.char_cnn is not None:
            parts.append(self.char_cnn(char_ids))  # (U, F), or (U, P) without a token projection
        vectors = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return vectors if self.token_projection is None else self.token_projection(vectors)

    def run(
        self,
        token_vectors: Tensor,
        index: Sequence[Tensor],
        batch_sizes: Sequence[int],
        state: BiLMState,
        resets: Sequence[Tensor | None] | None = None,
        dropout_rate: float = 0.0,
    ) -> tuple[list[list[Tensor]], BiLMState]:
        """Run all layers over packed tokens: token n of direction r is `index[r][n]`.

        Returns for each layer and direction (N, P), in the order of the direction.
        """
        outputs: list[list[Tensor]] = []
        states: list[list[LayerState]] = []
        # One dropout mask per word, so that its input product is computed once.
        rows = [dropout(token_vectors, dropout_rate, self.training)] * len(index)
        where: Sequence[Tensor | None] = index
        for depth, layers in enumerate(zip(*self.stacks.values(), strict=True)):
            before = [
                LayerState(state.hidden[r, depth], state.cell[r, depth]) for r in range(len(index))
            ]
            above, after = run_layers(layers, rows, where, batch_sizes, before, resets)
            if depth > 0 and self.config.lstm.has_skip_connections:
                above = [y + x for y, x in zip(above, outputs[-1], strict=True)]
            outputs.append(above)
            states.append(after)
            rows = [dropout(y, dropout_rate, self.training) for y in above]
            where = [None] * len(index)
        return outputs, _join_states(states) if states else state

    def contextualize(
        self,
        token_vectors: Tensor,
        word_index: Tensor,
        lengths: Tensor,
        state: BiLMState | None = None,
    ) -> BiLMOutput:
        """All layers for sentences given as indices (B, T) into `token_vectors` (U, P)."""
        n_sentences, n_positions = word_index.shape
        device = token_vectors.device
        packing = Packing.of(lengths, self.config.directions, device)
        positions = [packing.row * n_positions + position for position in packing.position]
        zeros = token_vectors.new_zeros(
            self.config.lstm.n_layers + 1, n_sentences * n_positions, self.config.output_dim
        )
        words = word_index.reshape(-1)
        after = self._fill(zeros, token_vectors, words, positions, packing, state)
        layers = zeros.view(
            len(zeros), n_sentences, n_positions, self.config.output_dim
        )  # (L+1, B, T, R*P)
        mask = torch.arange(n_positions, device=device) < lengths.to(device)[:, None]
        return BiLMOutput(layers, mask, after)

    def contextualize_joined(
        self,
        token_vectors: Tensor,
        words: Tensor,
        lengths: Tensor,
        state: BiLMState | None = None,
    ) -> Tensor:
        """All layers (L+1, N, R*P) for concatenated sentences (N,), without padding."""
        device = token_vectors.device
        packing = Packing.of(lengths, self.config.directions, device)
        starts = (lengths.cumsum(0) - lengths).to(device)  # (B,)
        positions = [starts[packing.row] + position for position in packing.position]
        layers = token_vectors.new_empty(
            self.config.lstm.n_layers + 1, len(words), self.config.output_dim
        )
        self._fill(layers, token_vectors, words, positions, packing, state)
        return layers

    def _fill(
        self,
        layers: Tensor,
        token_vectors: Tensor,
        words: Tensor,
        positions: Sequence[Tensor],
        packing: Packing,
        state: BiLMState | None,
    ) -> BiLMState:
        """Run packed sentences; write token n of direction r to `layers[:, positions[r][n]]`."""
        index = [words[position] for position in positions]
        n_sentences = len(packing.order)
        before = self.initial_state(n_sentences) if state is None else state.rows(packing.order)
        packed, after = self.run(token_vectors, index, packing.batch_sizes, before)
        by_direction = layers.view(
            *layers.shape[:2], len(index), token_vectors.shape[1]
        )  # (L+1, N, R, P)
        for r, position in enumerate(positions):
            rows = [token_vectors[index[r]], *(layer[r] for layer in packed)]
            for depth, row in enumerate(rows):
                # Under autocast the token layer and the LSTM may return different dtypes.
                by_direction[depth, :, r].index_copy_(0, position, row.to(layers.dtype))
        return after.rows(torch.argsort(packing.order))

    def forward(self, batch: Batch, state: BiLMState | None = None) -> BiLMOutput:
        """All layers for a batch of sentences, from the given state or zeros."""
        vectors = self.token_vectors(batch.char_ids)
        return self.contextualize(vectors, batch.word_index, batch.lengths, state)


def _build_word_encoder(config: BiLMConfig, lexicon: Lexicon) -> WordEncoder:
    lexicon.check(config.lexicon or LexiconConfig())
    if config.char_cnn is None:
        return WordEncoder(lexicon, None, 1)
    widest = max(width for width, _ in config.char_cnn.filters)
    return WordEncoder(lexicon, config.char_cnn.max_characters, widest)


def _build_word_table(lists: LexiconConfig) -> nn.Embedding | None:
    if lists.n_words is None or lists.word_dim is None:
        return None
    start = torch.empty(lists.n_words, lists.word_dim)
    table = nn.Embedding(lists.n_words, lists.word_dim, _weight=start)
    if not table.weight.is_meta:
        nn.init.uniform_(table.weight, -1, 1)  # like bilm-tf
    return table


def _build_char_cnn(config: BiLMConfig, lists: LexiconConfig) -> CharCNN | None:
    cnn = config.char_cnn
    if cnn is None:
        return None
    n_listed = lists.n_characters
    return CharCNN(
        char_dim=cnn.char_dim,
        filters=cnn.filters,
        n_highways=cnn.n_highways,
        activation=cnn.activation,
        output_dim=None if lists.has_projection else config.lstm.projection_dim,
        n_characters=N_CHARACTERS if n_listed is None else FIRST_CHARACTER + n_listed,
    )


def _build_token_projection(config: BiLMConfig, lists: LexiconConfig) -> nn.Linear | None:
    if not lists.has_projection:
        return None
    n_filters = 0 if config.char_cnn is None else config.char_cnn.n_filters
    return nn.Linear((lists.word_dim or 0) + n_filters, config.lstm.projection_dim)


def carry_over(
    carried: BiLMState, n_positions: int, bilm: BiLM, run: Callable[[BiLMState], BiLMOutput]
) -> tuple[BiLMOutput, BiLMState]:
    """Run a batch from the states carried at its positions, and return the updated states.

    As in the original implementations, the additional positions of a larger batch start from zeros,
    and a smaller batch leaves the states of the other positions unchanged.
    """
    fresh = bilm.initial_state(max(0, n_positions - carried.hidden.shape[2]))
    # The network may have been moved to another device since.
    carried = BiLMState(carried.hidden.to(fresh.hidden), carried.cell.to(fresh.cell))
    known = _beside(carried, fresh)
    output = run(known.rows(slice(n_positions)))
    return output, _beside(output.state, known.rows(slice(n_positions, None)))


def _beside(one: BiLMState, other: BiLMState) -> BiLMState:
    """Concatenate the sentences of two states."""
    return BiLMState(
        torch.cat([one.hidden, other.hidden], dim=2), torch.cat([one.cell, other.cell], dim=2)
    )


def _join_states(states: list[list[LayerState]]) -> BiLMState:
    """Stack states, given by layer and direction, with the direction first."""
    by_direction = list(zip(*states, strict=True))
    return BiLMState(
        torch.stack([torch.stack([layer.hidden for layer in stack]) for stack in by_direction]),
        torch.stack([torch.stack([layer.cell for layer in stack]) for stack in by_direction]),
    )
