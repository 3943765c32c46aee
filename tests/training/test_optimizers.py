"""Optimisers: by rows as by the whole, clipping, schedules, states that come back."""

import math

import pytest
import torch

from elmo.training.optimizers import build_adagrad, build_adamw, clip_gradients, scheduled_rate

N_ROWS, DIM = 7, 3


def parameters(seed=0):
    torch.manual_seed(seed)
    return {
        "head.weight": torch.nn.Parameter(torch.randn(N_ROWS, DIM)),
        "head.bias": torch.nn.Parameter(torch.randn(N_ROWS)),
    }


def build(kind, dense, sparse):
    if kind == "adagrad":
        return build_adagrad(dense, sparse)
    return build_adamw(dense, sparse, betas=(0.9, 0.99), weight_decay=0.1)


def gradients(step, rows):
    """A gradient of some rows of both parameters, as dense tensors."""
    torch.manual_seed(100 + step)
    weight, bias = torch.zeros(N_ROWS, DIM), torch.zeros(N_ROWS)
    weight[rows], bias[rows] = torch.randn(len(rows), DIM), torch.randn(len(rows))
    return weight, bias


def give(named, tensors, *, rows=None):
    """Set gradients; sparse, in two uneven halves that must be summed, if rows are named."""
    for parameter, tensor in zip(named.values(), tensors, strict=True):
        if rows is None:
            parameter.grad = tensor.clone()
        else:
            ids = torch.tensor([*rows, *rows])
            values = torch.cat([0.25 * tensor[rows], 0.75 * tensor[rows]])
            parameter.grad = torch.sparse_coo_tensor(
                ids[None], values, tensor.shape, check_invariants=True
            )


@pytest.mark.parametrize("kind", ["adamw", "adagrad"])
def test_rows_that_are_always_touched_move_as_by_the_dense_optimiser(kind):
    dense, sparse = parameters(), parameters()
    by_whole, by_rows = build(kind, dense, {}), build(kind, {}, sparse)
    everything = list(range(N_ROWS))
    for step in range(5):
        give(dense, gradients(step, everything))
        give(sparse, gradients(step, everything), rows=everything)
        by_whole.step(0.1)
        by_rows.step(0.1)
    for name in dense:
        torch.testing.assert_close(sparse[name], dense[name], atol=1e-5, rtol=1e-5)


def test_adagrad_by_rows_equals_dense_adagrad_whatever_is_touched():
    dense, sparse = parameters(), parameters()
    by_whole, by_rows = build_adagrad(dense, {}), build_adagrad({}, sparse)
    for step, rows in enumerate([[0, 3], [3], [1, 2, 6], [0, 3]]):
        give(dense, gradients(step, rows))
        give(sparse, gradients(step, rows), rows=rows)
        by_whole.step(0.2)
        by_rows.step(0.2)
    for name in dense:
        torch.testing.assert_close(sparse[name], dense[name], atol=1e-6, rtol=1e-6)


def test_adagrad_starts_from_a_sum_of_one_as_the_paper_did():
    named = {"weight": torch.nn.Parameter(torch.tensor([[1.0]]))}
    named["weight"].grad = torch.tensor([[2.0]])
    build_adagrad(named, {}).step(0.2)
    assert named["weight"].item() == pytest.approx(1 - 0.2 * 2 / math.sqrt(1 + 4))


@pytest.mark.parametrize("kind", ["adamw", "adagrad"])
def test_rows_that_are_not_touched_do_not_move(kind):
    sparse = parameters()
    before = {name: parameter.detach().clone() for name, parameter in sparse.items()}
    optimiser = build(kind, {}, sparse)
    for step in range(3):
        give(sparse, gradients(step, [2, 5]), rows=[2, 5])
        optimiser.step(0.1)
    for name, parameter in sparse.items():
        moved = (parameter != before[name]).reshape(N_ROWS, -1).any(1)
        assert moved.nonzero().squeeze(1).tolist() == [2, 5]


def test_a_row_touched_for_the_first_time_late_moves_by_the_whole_rate():
    sparse = {"weight": torch.nn.Parameter(torch.zeros(N_ROWS, DIM))}
    optimiser = build_adamw({}, sparse, betas=(0.9, 0.99), weight_decay=0.0)
    for row in (0, 0, 0, 4):
        values = torch.full((1, DIM), 5.0)
        sparse["weight"].grad = torch.sparse_coo_tensor([[row]], values, (N_ROWS, DIM))
        optimiser.step(0.01)
    torch.testing.assert_close(sparse["weight"][4], torch.full((DIM,), -0.01))


@pytest.mark.parametrize("kind", ["adamw", "adagrad"])
def test_an_optimiser_goes_on_from_its_state(kind):
    def run(named, optimiser, steps):
        for step in steps:
            give({"d": named["d"]}, [torch.full((2, 2), float(step))])
            give({"s": named["s"]}, gradients(step, [1, 2])[:1], rows=[1, 2])
            optimiser.step(0.1)

    def make():
        torch.manual_seed(0)
        named = {
            "d": torch.nn.Parameter(torch.randn(2, 2)),
            "s": torch.nn.Parameter(torch.randn(N_ROWS, DIM)),
        }
        return named, build(kind, {"d": named["d"]}, {"s": named["s"]})

    whole, optimiser = make()
    run(whole, optimiser, range(1, 7))
    first, optimiser = make()
    run(first, optimiser, range(1, 4))
    state = {name: tensor.clone() for name, tensor in optimiser.state().items()}
    second, optimiser = make()
    for name in second:
        second[name].data.copy_(first[name].data)
    optimiser.load_state(state)
    run(second, optimiser, range(4, 7))
    assert all(torch.equal(second[name], whole[name]) for name in whole)


def test_a_step_leaves_a_trace_for_those_who_keep_products_of_the_weights():
    named = {"weight": torch.nn.Parameter(torch.ones(2, 2))}
    named["weight"].grad = torch.ones(2, 2)
    before = named["weight"]._version
    build_adamw(named, {}, betas=(0.9, 0.99), weight_decay=0.0).step(0.1)
    assert named["weight"]._version > before


def test_clipping_counts_dense_and_sparse_gradients_together():
    dense, sparse = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(N_ROWS))
    dense.grad = torch.tensor([3.0, 0.0])
    # Two entries for one row: the gradient is their sum.
    sparse.grad = torch.sparse_coo_tensor([[4, 4]], [1.0, 3.0], (N_ROWS,))
    assert clip_gradients([dense, sparse], 10.0) == pytest.approx(5)
    assert dense.grad[0] == 3
    assert clip_gradients([dense, sparse], 1.0) == pytest.approx(5)
    torch.testing.assert_close(dense.grad, torch.tensor([0.6, 0.0]))
    assert sparse.grad.to_dense()[4].item() == pytest.approx(0.8)


def test_the_rate_rises_then_falls_to_zero_at_the_end():
    def rate(step, decay, n_planned=110):
        return scheduled_rate(step, n_planned, highest=1.0, n_warmup=10, decay=decay)

    assert [rate(step, "cosine") for step in (0, 4, 9)] == [0.1, 0.5, 1.0]
    assert rate(10, "cosine") == rate(10, "linear") == 1.0
    assert rate(60, "cosine") == pytest.approx(0.5)
    assert rate(60, "linear") == pytest.approx(0.5)
    assert rate(110, "cosine") == pytest.approx(0)
    assert rate(109, "linear") == pytest.approx(0.01)
    assert rate(500, "linear") == 0
    assert rate(60, "constant") == 1
    assert rate(60, "cosine", n_planned=None) == 1
