"""Optimizers: row-wise and dense updates, clipping, schedules, and restored states."""

import math

import pytest
import torch

from elmo.training.averages import EVERY, Averages
from elmo.training.muon import orthogonalize
from elmo.training.optimizers import (
    build_adagrad,
    build_adamw,
    build_muon,
    clip_gradients,
    scheduled_rate,
)

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
    if kind == "muon":
        return muon(dense, sparse, every=2)
    return build_adamw(dense, sparse, betas=(0.9, 0.99), weight_decay=0.1)


def muon(dense, sparse=None, *, n_blocks=None, every=1, weight_decay=0.1):
    blocks = n_blocks or {name: 1 for name, weight in dense.items() if weight.ndim == 2}
    return build_muon(
        dense,
        sparse or {},
        n_blocks=blocks,
        every=every,
        momentum=0.95,
        betas=(0.9, 0.99),
        weight_decay=weight_decay,
    )


def gradients(step, rows):
    """A gradient of some rows of both parameters, as dense tensors."""
    torch.manual_seed(100 + step)
    weight, bias = torch.zeros(N_ROWS, DIM), torch.zeros(N_ROWS)
    weight[rows], bias[rows] = torch.randn(len(rows), DIM), torch.randn(len(rows))
    return weight, bias


def give(named, tensors, *, rows=None):
    """Set gradients; if rows are given, sparse and in two uneven parts that must be summed."""
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
def test_rows_that_are_always_touched_move_as_by_the_dense_optimizer(kind):
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
    optimizer = build(kind, {}, sparse)
    for step in range(3):
        give(sparse, gradients(step, [2, 5]), rows=[2, 5])
        optimizer.step(0.1)
    for name, parameter in sparse.items():
        moved = (parameter != before[name]).reshape(N_ROWS, -1).any(1)
        assert moved.nonzero().squeeze(1).tolist() == [2, 5]


def test_a_row_touched_for_the_first_time_late_moves_by_the_whole_rate():
    sparse = {"weight": torch.nn.Parameter(torch.zeros(N_ROWS, DIM))}
    optimizer = build_adamw({}, sparse, betas=(0.9, 0.99), weight_decay=0.0)
    for row in (0, 0, 0, 4):
        values = torch.full((1, DIM), 5.0)
        sparse["weight"].grad = torch.sparse_coo_tensor([[row]], values, (N_ROWS, DIM))
        optimizer.step(0.01)
    torch.testing.assert_close(sparse["weight"][4], torch.full((DIM,), -0.01))


@pytest.mark.parametrize("kind", ["adamw", "adagrad", "muon"])
def test_an_optimizer_resumes_from_its_state(kind):
    def run(named, optimizer, steps):
        for step in steps:
            give({"d": named["d"]}, [torch.full((2, 2), float(step))])
            give({"s": named["s"]}, gradients(step, [1, 2])[:1], rows=[1, 2])
            optimizer.step(0.1)

    def make():
        torch.manual_seed(0)
        named = {
            "d": torch.nn.Parameter(torch.randn(2, 2)),
            "s": torch.nn.Parameter(torch.randn(N_ROWS, DIM)),
        }
        return named, build(kind, {"d": named["d"]}, {"s": named["s"]})

    whole, optimizer = make()
    run(whole, optimizer, range(1, 7))
    first, optimizer = make()
    run(first, optimizer, range(1, 4))
    state = {name: tensor.clone() for name, tensor in optimizer.state().items()}
    second, optimizer = make()
    for name in second:
        second[name].data.copy_(first[name].data)
    optimizer.load_state(state)
    run(second, optimizer, range(4, 7))
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


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_orthogonal_matrices_have_singular_values_near_one_and_the_same_vectors(scale):
    torch.manual_seed(0)
    matrices = torch.randn(3, 20, 50)
    found = orthogonalize(matrices * scale).float()
    singular = torch.linalg.svdvals(found)
    assert 0.6 < singular.min() < singular.max() < 1.3
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    overlap = (found * (left @ right)).sum((1, 2)) / 20  # the mean singular value, if aligned
    torch.testing.assert_close(overlap, singular.mean(1), atol=0.02, rtol=0)


def test_no_gradient_makes_no_update():
    assert orthogonalize(torch.zeros(1, 4, 6)).float().abs().max() == 0


def test_muon_moves_each_block_as_if_it_were_alone_tall_or_wide():
    torch.manual_seed(0)
    blocks = [torch.randn(12, 5) for _ in range(4)]
    slopes = [torch.randn(12, 5) * 10**number for number in range(4)]
    together = {"w": torch.nn.Parameter(torch.cat(blocks))}
    alone = {str(n): torch.nn.Parameter(block.clone()) for n, block in enumerate(blocks)}
    wide = {str(n): torch.nn.Parameter(block.T.clone()) for n, block in enumerate(blocks)}
    optimizers = muon(together, n_blocks={"w": 4}), muon(alone), muon(wide)
    for _ in range(3):
        together["w"].grad = torch.cat(slopes)
        for number, slope in enumerate(slopes):
            alone[str(number)].grad = slope.clone()
            wide[str(number)].grad = slope.T.clone()
        for optimizer in optimizers:
            optimizer.step(0.1)
    torch.testing.assert_close(together["w"], torch.cat(list(alone.values())))
    torch.testing.assert_close(together["w"], torch.cat([each.T for each in wide.values()]))


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9 has no Muon")
def test_muon_moves_a_matrix_as_torchs_own_does():
    torch.manual_seed(0)
    ours = {"w": torch.nn.Parameter(torch.randn(24, 40))}
    theirs = torch.nn.Parameter(ours["w"].detach().clone())
    optimizer = muon(ours)
    reference = torch.optim.Muon(
        [theirs], lr=0.1, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    for _ in range(5):
        ours["w"].grad = torch.randn(24, 40)
        theirs.grad = ours["w"].grad.clone()
        optimizer.step(0.1)
        reference.step()
    # Torch iterates in bfloat16, which has eight bits.
    torch.testing.assert_close(ours["w"], theirs, atol=5e-3, rtol=0)


def test_muons_updates_are_as_large_as_adamws():
    torch.manual_seed(0)
    named = {"w": torch.nn.Parameter(torch.zeros(64, 256))}
    named["w"].grad = torch.randn(64, 256)
    muon(named).step(0.5)
    assert float(named["w"].detach().square().mean().sqrt()) == pytest.approx(0.1, rel=0.2)


def test_muon_leaves_to_adamw_what_is_no_matrix_of_its_own():
    def make():
        torch.manual_seed(0)
        return {name: torch.nn.Parameter(torch.randn(4, 6)) for name in ("matrix", "table")}

    mixed, plain = make(), make()
    optimizers = muon(mixed, n_blocks={"matrix": 1}), build("adamw", plain, {})
    for named, optimizer in zip((mixed, plain), optimizers, strict=True):
        for parameter in named.values():
            parameter.grad = torch.ones(4, 6)
        optimizer.step(0.1)
    assert torch.equal(mixed["table"], plain["table"])
    assert not torch.equal(mixed["matrix"], plain["matrix"])


def test_muon_may_wait_and_then_take_a_larger_step():
    named = {"w": torch.nn.Parameter(torch.zeros(4, 6))}
    optimizer = muon(named, every=3, weight_decay=0.0)
    moved = []
    for _ in range(6):
        named["w"].grad = torch.eye(4, 6)
        optimizer.step(0.1)
        moved.append(-float(named["w"].detach()[0, 0]))
    assert moved[:2] == [0.0, 0.0]
    assert moved[2] == moved[3] == moved[4] == pytest.approx(0.3 * 0.2 * math.sqrt(6), rel=0.3)
    assert moved[5] == pytest.approx(2 * moved[2])


def test_averages_follow_the_weights_and_give_them_back():
    weight = torch.nn.Parameter(torch.zeros(2))
    averages = Averages({"weight": weight}, decay=0.99)
    for step in range(1, 200 * EVERY + 1):
        with torch.no_grad():
            weight += 1 / (200 * EVERY)
        averages.update(step)
    last = weight.detach().clone()
    with averages.in_place():
        averaged = weight.detach().clone()
    assert torch.equal(weight, last)
    # The average of a linearly increasing weight lags by about as many steps as it covers.
    assert 1 - float(averaged[0]) == pytest.approx(0.99 / 0.01 / (200 * EVERY), rel=0.1)


def test_averages_of_a_few_steps_are_the_weights():
    weight = torch.nn.Parameter(torch.zeros(2))
    averages = Averages({"weight": weight}, decay=0.999)
    for step in range(1, EVERY):
        with torch.no_grad():
            weight += 1
        averages.update(step)
        assert torch.equal(averages.state()["weight"], weight)


def test_early_averages_are_of_the_steps_so_far():
    weight = torch.nn.Parameter(torch.zeros(2))
    averages = Averages({"weight": weight}, decay=0.99999)
    for step in range(1, 10 * EVERY + 1):
        with torch.no_grad():
            weight.fill_(1.0)
        averages.update(step)
    assert float(averages.state()["weight"][0]) > 0.99
