"""Normalizers of a softmax over many words, without gradients, with logits computed in blocks.

In: hidden rows of one or two directions (N, P) each, weight (V, P) and bias (V,). Out: the log of
the sum of the exponentials of all logits, per direction and for the mean of both directions.
"""

from collections.abc import Sequence

from torch import Tensor

from elmo.network.kernels import library
from elmo.network.kernels.library import SoftmaxStructure, address, allocate


def log_sum_exp(rows: Sequence[Tensor], weight: Tensor, bias: Tensor, n_skipped: int = 0) -> Tensor:
    """(directions + 1, N); the first `n_skipped` words are excluded from the last row, the mean."""
    n_rows = rows[0].shape[0]
    n_words, dim = weight.shape
    shapes = [*(tuple(hidden.shape) for hidden in rows), tuple(bias.shape)]
    expected: list[tuple[int, ...]] = [*([(n_rows, dim)] * len(rows)), (n_words,)]
    if shapes != expected or not 1 <= len(rows) <= 2:
        raise ValueError(f"rows and bias have shapes {shapes}, expected {expected}")
    tensors = [each.detach().contiguous() for each in (*rows, weight, bias)]
    softmax = SoftmaxStructure(n_rows, dim, n_words, len(rows))
    softmax.rows[0], softmax.rows[1] = address(tensors[0]), address(tensors[len(rows) - 1])
    softmax.weight, softmax.bias = map(address, tensors[-2:])
    softmax.n_skipped = n_skipped
    n_chunks = library.opened().elmo_softmax_chunks(softmax)
    found = allocate(n_chunks, len(rows) + 1, n_rows)
    softmax.log_sums = address(found)
    library.call("sum_exponentials", [softmax])
    return found.logsumexp(0)
