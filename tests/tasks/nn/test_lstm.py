"""The layers against a loop over tokens, one row at a time."""

import pytest
import torch

from elmo.tasks.nn.lstm import AlternatingLSTM


def read_slowly(encoder, x):
    """(T, D) -> (T, H), token by token."""
    for number, layer in enumerate(encoder.layers):
        is_from_end = number % 2 == 1
        lstm = layer.lstm
        hidden = cell = x.new_zeros(encoder.output_dim)
        outputs = {}
        for place in range(len(x))[:: -1 if is_from_end else 1]:
            gates = lstm.weight_ih_l0 @ x[place] + lstm.bias_ih_l0
            gates = gates + lstm.weight_hh_l0 @ hidden + lstm.bias_hh_l0
            i, f, g, o = gates.chunk(4)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            r = torch.sigmoid(layer.gate(torch.cat([x[place], hidden])))
            outputs[place] = r * hidden + (1 - r) * layer.carry(x[place])
        x = torch.stack([outputs[place] for place in range(len(x))])
    return x


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_rows_of_any_length_are_read_in_turns_from_both_sides(n_layers):
    torch.manual_seed(1)
    encoder = AlternatingLSTM(5, 4, n_layers).double().eval()
    x = torch.randn(3, 6, 5, dtype=torch.float64)
    lengths = torch.tensor([6, 1, 4])
    found = encoder(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[row, :length], read_slowly(encoder, x[row, :length]))


def test_dropout_is_the_same_at_all_tokens_of_a_row():
    torch.manual_seed(1)
    encoder = AlternatingLSTM(5, 40, 1, dropout=0.5)
    found = encoder(torch.randn(2, 6, 5), torch.tensor([6, 6]))
    is_dropped = found == 0
    assert is_dropped.any()
    assert (is_dropped == is_dropped[:, :1]).all()
    assert (is_dropped[0] != is_dropped[1]).any()
