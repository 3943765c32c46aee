"""The compiled character convolutions against torch's, forward and backward pass."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn.functional import conv1d, embedding

from elmo.network import kernels

pytestmark = pytest.mark.needs("compiler")
N_VECTORS = 20


def make_parameters(filters, char_dim, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape):
        return torch.randn(shape, generator=generator).requires_grad_()

    vectors = leaf(N_VECTORS, char_dim)
    with torch.no_grad():
        vectors[0] = 0
    return vectors, [(leaf(n, char_dim, width), leaf(n)) for width, n in filters]


def find_plainly(char_ids, vectors, filters):
    """Compute in float64: torch's float32 convolution is not exact enough to compare with."""
    characters = embedding(char_ids, vectors.double(), padding_idx=0).transpose(1, 2)
    return torch.cat(
        [conv1d(characters, w.double(), b.double()).amax(-1) for w, b in filters], dim=-1
    )


def has_clear_winners(char_ids, vectors, filters):
    """Whether no filter has almost equal maxima at windows of different characters."""
    characters = vectors.double()[char_ids].transpose(1, 2)
    for weight, bias in filters:
        answers = conv1d(characters, weight.double(), bias.double())  # (U, n, windows)
        is_top = answers > answers.amax(-1, keepdim=True) - 1e-4
        windows = char_ids.unfold(1, weight.shape[2], 1)  # (U, windows, width)
        first = windows[torch.arange(len(windows))[:, None], is_top.int().argmax(-1)]
        is_alike = (windows[:, None] == first[:, :, None]).all(-1)  # (U, n, windows)
        if (is_top & ~is_alike).any():
            return False
    return True


def flatten(vectors, filters):
    return [vectors, *(tensor for pair in filters for tensor in pair)]


@settings(max_examples=40, deadline=None)
@given(
    filters=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 40)), min_size=1, max_size=4),
    char_dim=st.integers(1, 40),
    words=st.lists(
        st.lists(st.integers(0, N_VECTORS - 1), min_size=1, max_size=9), min_size=1, max_size=9
    ),
    seed=st.integers(0, 1000),
)
def test_highest_values_and_all_gradients_equal_torchs(filters, char_dim, words, seed):
    n_characters = max(5, *map(len, words))
    padding = N_VECTORS - 1
    char_ids = torch.tensor([word + [padding] * (n_characters - len(word)) for word in words])
    vectors, filters = make_parameters(filters, char_dim, seed)
    assume(has_clear_winners(char_ids, vectors, filters))
    found = kernels.conv_max_pool(char_ids, vectors, filters, 0)
    expected = find_plainly(char_ids, vectors, filters)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    weights = torch.randn_like(found).relu()
    for one, other in zip(
        torch.autograd.grad(found, flatten(vectors, filters), weights),
        torch.autograd.grad(expected, flatten(vectors, filters), weights.double()),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_released_filters_are_as_exact_as_double_precision_rounded():
    torch.manual_seed(0)
    char_ids = torch.randint(0, 262, (60, 30))
    vectors = torch.rand(262, 16) * 2 - 1
    sizes = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
    filters = [(torch.randn(n, 16, width) / 10, torch.randn(n)) for width, n in sizes]
    expected = find_plainly(char_ids, vectors, filters)
    found = kernels.conv_max_pool(char_ids, vectors, filters, 0)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-6)


def test_threads_and_repetition_give_the_same_bits():
    char_ids = torch.randint(0, N_VECTORS, (200, 12))
    vectors, filters = make_parameters([(1, 20), (3, 70)], 16)
    n_threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 1, 2, 5):
            torch.set_num_threads(n)
            highest = kernels.conv_max_pool(char_ids, vectors / 7, filters, 0)
            grads = torch.autograd.grad((highest / 3).sin().sum(), flatten(vectors, filters)[:2])
            results.append([highest, *grads])
    finally:
        torch.set_num_threads(n_threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_characters_that_are_not_in_the_table_are_refused():
    vectors, filters = make_parameters([(1, 3)], 4)
    with pytest.raises(IndexError, match=r"expected 0\.\.19"):
        kernels.conv_max_pool(torch.tensor([[3, N_VECTORS]]), vectors, filters, 0)


@pytest.mark.parametrize("place", [0, 3, 7])
def test_nan_is_not_lost_among_other_windows(place):
    vectors, filters = make_parameters([(1, 5), (3, 20)], 4)
    with torch.no_grad():
        vectors[7] = torch.nan
    char_ids = torch.tensor([[1, 2, 3, 4, 5, 6, 8, 9], [9, 8, 6, 5, 4, 3, 2, 1]])
    char_ids[0, place] = 7
    found = kernels.conv_max_pool(char_ids, vectors, filters, 0)
    assert found.isnan().all(1).tolist() == [True, False]
    assert not found[1].isnan().any()


def test_no_words_give_no_rows():
    vectors, filters = make_parameters([(1, 3)], 4)
    found = kernels.conv_max_pool(torch.empty(0, 5, dtype=torch.int64), vectors, filters, 0)
    assert found.shape == (0, 3)
    assert all(not grad.any() for grad in torch.autograd.grad(found.sum(), [vectors, *filters[0]]))
