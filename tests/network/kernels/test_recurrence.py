"""The compiled recurrence against a plain one of a dozen lines, forward and backward pass."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from elmo.network import kernels
from elmo.network.kernels import inference, library

pytestmark = pytest.mark.needs("compiler")


TEST_FILES = [str(path) for path in Path(__file__).parent.glob("test_*.py")]


class Layer(nn.Module):
    def __init__(self, input_dim, dim, projection_dim, cell_clip, projection_clip):
        super().__init__()
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.input_weight = nn.Parameter(torch.randn(4 * dim, input_dim) / input_dim**0.5)
        self.recurrent_weight = nn.Parameter(torch.randn(4 * dim, projection_dim) / 2)
        self.bias = nn.Parameter(torch.randn(4 * dim))
        self.projection_weight = nn.Parameter(torch.randn(projection_dim, dim) / dim**0.5)

    @property
    def gate_bias(self):
        return self.bias * 1.0


def run_plainly(layer, rows, index, batch_sizes, state, resets):
    hidden, cell = (list(each) for each in state)  # a tensor per sentence
    outputs, n = [], 0
    for n_running in batch_sizes:
        for b in range(n_running):
            if resets is not None and resets[n]:
                hidden[b], cell[b] = hidden[b] * 0, cell[b] * 0
            x = rows[n if index is None else index[n]]
            gates = layer.input_weight @ x + layer.recurrent_weight @ hidden[b] + layer.gate_bias
            i, j, f, o = gates.chunk(4)
            c = torch.sigmoid(f) * cell[b] + torch.sigmoid(i) * torch.tanh(j)
            cell[b] = c if layer.cell_clip is None else c.clamp(-layer.cell_clip, layer.cell_clip)
            h = layer.projection_weight @ (torch.sigmoid(o) * torch.tanh(cell[b]))
            clip = layer.projection_clip
            hidden[b] = h if clip is None else h.clamp(-clip, clip)
            outputs.append(hidden[b])
            n += 1
    return torch.stack(outputs), (torch.stack(hidden), torch.stack(cell))


@dataclass
class Case:
    layers: list
    rows: list
    index: list
    batch_sizes: list
    states: list
    resets: list

    def tensors(self):
        weights = [each for layer in self.layers for each in layer.parameters()]
        return [*self.rows, *weights, *(each for state in self.states for each in state)]

    def run_fast(self):
        outputs, states = kernels.run_layers(
            self.layers, self.rows, self.index, self.batch_sizes, self.states, self.resets
        )
        return [*outputs, *(each for state in states for each in state)]

    def run_reference(self):
        directions = zip(self.layers, self.rows, self.index, self.states, self.resets, strict=True)
        results = [
            run_plainly(layer, rows, index, self.batch_sizes, state, resets)
            for layer, rows, index, state, resets in directions
        ]
        return [*(outputs for outputs, _ in results), *(e for _, state in results for e in state)]


def make_case(
    *,
    seed=0,
    n_directions=2,
    input_dim=6,
    dim=16,
    projection_dim=8,
    lengths=(5, 3, 3, 1),
    cell_clip=1.0,
    projection_clip=0.5,
    is_indexed=True,
    has_resets=False,
):
    torch.manual_seed(seed)
    lengths = sorted(lengths, reverse=True)
    batch_sizes = [sum(length > t for length in lengths) for t in range(lengths[0])]
    n_tokens, n_rows = sum(lengths), max(1, sum(lengths) // 2)
    directions = range(n_directions)

    def leaf(*shape):
        return torch.randn(*shape, requires_grad=True)

    return Case(
        layers=[
            Layer(input_dim, dim, projection_dim, cell_clip, projection_clip) for _ in directions
        ],
        rows=[leaf(n_rows if is_indexed else n_tokens, input_dim) for _ in directions],
        index=[torch.randint(n_rows, (n_tokens,)) if is_indexed else None for _ in directions],
        batch_sizes=batch_sizes,
        states=[(leaf(len(lengths), projection_dim), leaf(len(lengths), dim)) for _ in directions],
        resets=[torch.rand(n_tokens) < 0.3 if has_resets else None for _ in directions],
    )


def assert_close(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        scale = max(1.0, float(other.detach().abs().max()))
        assert float((one - other).detach().abs().max()) <= tolerance * scale


cases = st.builds(
    make_case,
    seed=st.integers(0, 1000),
    n_directions=st.integers(1, 3),
    input_dim=st.integers(1, 20),
    dim=st.integers(1, 70),
    projection_dim=st.integers(1, 40),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=15),
    cell_clip=st.sampled_from([None, 0.5, 3.0]),
    projection_clip=st.sampled_from([None, 0.2, 3.0]),
    is_indexed=st.booleans(),
    has_resets=st.booleans(),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
def test_outputs_and_states_equal_the_plain_recurrence(case):
    with torch.no_grad():
        assert_close(case.run_fast(), case.run_reference(), 1e-5)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
def test_every_gradient_equals_that_of_the_plain_recurrence(case):
    expected = case.run_reference()
    found = case.run_fast()
    assert_close(found, expected, 1e-5)
    weights = [torch.randn_like(each) for each in expected]
    tensors = case.tensors()
    assert_close(
        torch.autograd.grad(found, tensors, weights),
        torch.autograd.grad(expected, tensors, weights),
        1e-4,
    )


def test_products_deeper_than_a_cache_block_are_right():
    case = make_case(input_dim=530, dim=540, projection_dim=270, lengths=(2,) * 9, cell_clip=3.0)
    expected, found = case.run_reference(), case.run_fast()
    assert_close(found, expected, 1e-5)
    weights = [torch.randn_like(each) for each in expected]
    assert_close(
        torch.autograd.grad(found, case.tensors(), weights),
        torch.autograd.grad(expected, case.tensors(), weights),
        1e-4,
    )


def test_three_layers_over_a_long_sentence_stay_equal():
    fast = slow = None
    for seed in range(3):
        case = make_case(
            seed=seed,
            input_dim=24,
            dim=64,
            projection_dim=24,
            lengths=(400, 30),
            cell_clip=3.0,
            projection_clip=3.0,
            is_indexed=False,
        )
        with torch.no_grad():
            case.rows = case.rows if fast is None else fast[:2]
            fast = case.run_fast()
            case.rows = case.rows if slow is None else slow[:2]
            slow = case.run_reference()
            assert_close(fast, slow, 1e-5)


def test_gradients_flow_only_where_they_are_wanted():
    case = make_case()
    for tensor in case.tensors():
        tensor.requires_grad_(False)
    case.rows[0].requires_grad_(True)
    found, expected = case.run_fast(), case.run_reference()
    assert_close(
        torch.autograd.grad(found[0].sum(), case.rows[0]),
        torch.autograd.grad(expected[0].sum(), case.rows[0]),
        1e-4,
    )


def test_gradients_can_be_asked_for_twice():
    case = make_case()
    outputs = case.run_fast()[0]
    first = torch.autograd.grad(
        outputs.sum(), case.tensors()[:2], retain_graph=True, allow_unused=True
    )
    second = torch.autograd.grad(outputs.sum(), case.tensors()[:2], allow_unused=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("is_training", [False, True])
def test_the_same_call_twice_gives_the_same_bits(is_training):
    case = make_case(dim=60, projection_dim=33, lengths=range(1, 30))
    with torch.set_grad_enabled(is_training):
        first, second = case.run_fast(), case.run_fast()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    if is_training:
        grads = [
            torch.autograd.grad(sum(e.sum() for e in run), case.tensors())
            for run in (first, second)
        ]
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_the_number_of_threads_does_not_change_the_result():
    case = make_case(dim=60, projection_dim=33, lengths=range(1, 30), has_resets=True)
    n_threads = torch.get_num_threads()
    results, grads = [], []
    try:
        for n in (1, 2, 3, 7):
            torch.set_num_threads(n)
            results.append(case.run_fast())
            grads.append(torch.autograd.grad(sum(e.sum() for e in results[-1]), case.tensors()))
    finally:
        torch.set_num_threads(n_threads)
    for other, other_grads in zip(results[1:], grads[1:], strict=True):
        assert_close(other, results[0], 1e-6)
        assert_close(other_grads, grads[0], 1e-5)


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_text_run_in_pieces_gives_what_it_gives_whole(is_indexed, monkeypatch):
    case = make_case(lengths=(40, 30, 7, 7), is_indexed=is_indexed, has_resets=True)
    with torch.no_grad():
        whole = case.run_fast()
        monkeypatch.setattr(inference, "MAX_FROM_INPUT_FLOATS", 4 * 16 * 5)
        assert_close(case.run_fast(), whole, 1e-6)


def test_changed_and_replaced_weights_are_noticed():
    case = make_case()
    with torch.no_grad():
        before = case.run_fast()
        case.layers[0].recurrent_weight.mul_(2)
        changed = case.run_fast()
        assert_close(changed, case.run_reference(), 1e-5)
        assert not torch.equal(before[0], changed[0])
        case.layers[1].bias = nn.Parameter(torch.zeros_like(case.layers[1].bias))
        assert_close(case.run_fast(), case.run_reference(), 1e-5)


def test_a_step_of_a_fused_optimizer_that_changes_one_weight_is_noticed():
    case = make_case()
    weight = case.layers[0].input_weight
    optimizer = torch.optim.Adam([weight], lr=0.5, fused=True)
    weight.grad = torch.zeros_like(weight)
    weight.grad[1, 2] = 1.0
    with torch.no_grad():
        before = case.run_fast()
        optimizer.step()
        after = case.run_fast()
        assert_close(after, case.run_reference(), 1e-5)
    assert not torch.equal(before[0], after[0])


@pytest.mark.parametrize("name", ["input_weight", "recurrent_weight", "bias", "projection_weight"])
def test_writes_through_data_are_noticed(name):
    case = make_case()
    with torch.no_grad():
        before = case.run_fast()
        getattr(case.layers[0], name).data.mul_(2)
        after = case.run_fast()
        assert_close(after, case.run_reference(), 1e-5)
    assert not torch.equal(before[0], after[0])


def test_writes_that_bypass_torch_are_seen_after_forget_all():
    case = make_case()
    with torch.no_grad():
        case.run_fast()
        for tensor in case.layers[0].parameters():
            tensor.numpy().flat[1] += 2  # not one of the values that are sampled for changes
        kernels.forget_all()
        assert_close(case.run_fast(), case.run_reference(), 1e-5)


@pytest.mark.parametrize("part", ["input_weight", "recurrent_weight", "bias"])
def test_weights_of_another_shape_are_refused(part):
    case = make_case()
    weight = getattr(case.layers[0], part)
    setattr(case.layers[0], part, nn.Parameter(weight[:-1].detach().clone()))
    with pytest.raises(ValueError, match="has shape"):
        case.run_fast()


@pytest.mark.parametrize("batch_sizes", [[3, 4], [9, 1], [2, 0]])
def test_batch_sizes_that_do_not_fit_are_refused(batch_sizes):
    case = make_case(is_indexed=False)
    n_tokens = sum(batch_sizes)
    rows = [row[:1].expand(n_tokens, -1).contiguous() for row in case.rows]
    states = [tuple(part[:4] for part in state) for state in case.states]
    with pytest.raises(ValueError, match="expected"):
        kernels.run_layers(case.layers, rows, [None, None], batch_sizes, states)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, to see how much is in use")
def test_memory_that_cannot_be_had_is_a_memory_error():
    program = (
        "import resource, torch\n"
        "from elmo.network.lstm import LstmLayer, run_layers\n"
        'sizes = {"input_dim": 8, "dim": 512, "projection_dim": 8}\n'
        "layer = LstmLayer(**sizes, cell_clip=3, projection_clip=3)\n"
        "torch.set_num_threads(1)\n"
        "n = 60_000\n"
        "rows, state = torch.zeros(n, 8), layer.initial_state(n)\n"
        "with torch.no_grad():\n"
        "    run_layers([layer], [rows[:4]], [None], [4], [layer.initial_state(4)])\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + 700 * 2**20,) * 2)\n"
        "    try:\n"
        "        run_layers([layer], [rows], [None], [n], [state])\n"
        "    except MemoryError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("elmo_run_forward: no memory")


def test_the_callers_state_is_left_alone():
    case = make_case()
    before = [each.clone() for state in case.states for each in state]
    with torch.no_grad():
        case.run_fast()
    after = [each for state in case.states for each in state]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_large_and_broken_numbers_behave_as_in_torch():
    case = make_case(lengths=(3, 1, 1), is_indexed=False)
    with torch.no_grad():
        case.rows[0][0] = 1e4
        case.rows[0][1] = -1e4
        assert_close(case.run_fast(), case.run_reference(), 1e-5)
        case.rows[0][2] = float("nan")
        outputs = case.run_fast()[0]
        assert outputs[2].isnan().all()  # the caller sees NaN, but only in its own sentence
        assert outputs[[0, 1, 3, 4]].isfinite().all()


def test_rows_that_are_not_there_are_refused():
    case = make_case()
    case.index[1][3] = len(case.rows[1])
    with pytest.raises(IndexError, match=r"expected 0\.\."):
        case.run_fast()


def test_other_types_and_autocast_are_declined():
    case = make_case()
    assert kernels.can_run(case.layers, case.rows)
    assert not kernels.can_run(case.layers, [row.double() for row in case.rows])
    assert not kernels.can_run([layer.half() for layer in case.layers], case.rows)
    case = make_case()
    with torch.autocast("cpu", dtype=torch.float16):
        assert not kernels.can_run(case.layers, case.rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert kernels.can_run(case.layers, case.rows) == library.multiplies_bfloat16()
        with torch.no_grad():
            assert not kernels.can_run(case.layers, case.rows)


@pytest.mark.parametrize("lengths", [(5, 3, 3, 1), (7,) * 30, (2,) * 75])
@pytest.mark.parametrize("dims", [(6, 16, 8), (37, 300, 33), (160, 70, 160)])
def test_training_under_autocast_stays_near_float32(lengths, dims):
    if not library.multiplies_bfloat16():
        pytest.skip("this processor does not multiply bfloat16")
    input_dim, dim, projection_dim = dims
    case = make_case(
        lengths=lengths,
        input_dim=input_dim,
        dim=dim,
        projection_dim=projection_dim,
        cell_clip=3.0,
        projection_clip=3.0,
        has_resets=True,
    )
    for layer in case.layers:
        layer.recurrent_weight.data /= projection_dim**0.5  # as large as trained ones

    def run():
        outputs = case.run_fast()
        loss = sum(
            (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum()
            for output in outputs
        )
        return [*outputs, *torch.autograd.grad(loss, case.tensors())]

    exact = run()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = run()
    for one, other in zip(rounded, exact, strict=True):
        assert one.dtype == torch.float32
        assert 0 < float((one - other).norm()) < 0.02 * float(other.norm())


def test_weights_in_bfloat16_give_what_the_same_weights_give_in_float32():
    # Where the processor multiplies bfloat16 the rows are rounded too, to eight bits.
    tolerance = 1e-2 if library.multiplies_bfloat16() else 1e-5
    for lengths in ((4,), (4, 3, 3), (3,) * 20, (2,) * 37):  # in one tile, and in several
        case = make_case(lengths=lengths, dim=37, projection_dim=21)
        halves = [layer.to(torch.bfloat16) for layer in case.layers]
        with torch.no_grad():
            assert kernels.can_run(halves, case.rows)
            found = case.run_fast()
            case.layers = [layer.float() for layer in halves]
            assert_close(found, case.run_reference(), tolerance)
    case.layers = [layer.to(torch.bfloat16) for layer in case.layers]
    assert not kernels.can_run(case.layers, case.rows)  # gradients are needed


OF_ALL_WIDTHS = (
    "plain_recurrence or cache_block or torchs or highway or all_logits or packed_weights"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("-DLANES=4", OF_ALL_WIDTHS),
        ("-DLANES=16", OF_ALL_WIDTHS),
        ("-DNO_AMX", "bfloat16 or autocast"),
    ],
    ids=["4 lanes", "16 lanes", "no AMX"],  # none may contain a name that is run
)
def test_the_code_for_other_processors_gives_the_same_numbers(option, names):
    compiler = os.environ.get("CXX", "c++")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *TEST_FILES, "-k", names],
        env=os.environ | {"CXX": f"{compiler} {option}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
