"""Character convolutions with max-pooling over positions, as the token layer needs them.

In: char ids (U, C), the character embeddings (A, E), and per convolution its weight (n, E, width)
and bias (n,). Out: the maximum of each filter, (U, F), the filters of all convolutions
concatenated, with gradients for embeddings, weights and biases if needed.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.network.kernels import library
from elmo.network.kernels.library import ConvolutionStructure, WordsStructure, address, allocate

Filters = tuple[Tensor, Tensor]  # weight (n, E, width), bias (n,)


def conv_max_pool(
    char_ids: Tensor, char_vectors: Tensor, convolutions: Sequence[Filters], no_character: int
) -> Tensor:
    """The maximum of each filter in each word; the vector of `no_character` has no gradient."""
    lowest, highest = (int(bound) for bound in char_ids.aminmax()) if len(char_ids) else (0, 0)
    if lowest < 0 or highest >= len(char_vectors):
        raise IndexError(f"char ids {lowest}..{highest}, expected 0..{len(char_vectors) - 1}")
    widest = max(weight.shape[2] for weight, _ in convolutions)
    if char_ids.shape[1] < widest:
        raise ValueError(f"{char_ids.shape[1]} characters, expected at least a filter's {widest}")
    for weight, bias in convolutions:
        if weight.shape[1] != char_vectors.shape[1] or bias.shape != weight.shape[:1]:
            raise ValueError(
                f"a filter of shape {tuple(weight.shape)} with {len(bias)} biases, expected "
                f"{char_vectors.shape[1]} inputs and a bias for each filter"
            )
    parameters = [tensor.contiguous() for pair in convolutions for tensor in pair]
    result: Tensor = ConvMaxPool.apply(  # type: ignore[no-untyped-call]
        char_ids.contiguous(), no_character, char_vectors.contiguous(), *parameters
    )
    return result


class ConvMaxPool(torch.autograd.Function):
    """`apply(char_ids, no_character, char_vectors, weight, bias, weight, bias, ...)`."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        char_ids: Tensor,
        no_character: int,
        char_vectors: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        """Compute the maximum of each filter and, if gradients are needed, its window."""
        n_filters = sum(len(bias) for bias in parameters[1::2])
        maxima = allocate(len(char_ids), n_filters)
        places = torch.empty_like(maxima, dtype=torch.int32) if any(ctx.needs_input_grad) else None
        _call("conv_max_pool", char_ids, char_vectors, parameters, maxima=maxima, places=places)
        if places is not None:
            ctx.no_character = no_character
            ctx.save_for_backward(char_ids, places, char_vectors, *parameters)
        return maxima

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_maxima: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Pass the gradient of each filter to the window of its maximum."""
        char_ids, places, char_vectors, *parameters = ctx.saved_tensors
        grad_maxima = grad_maxima.contiguous()
        grad_char_vectors = torch.zeros_like(char_vectors)
        grad_weights = [torch.empty_like(weight) for weight in parameters[::2]]
        grad_biases = torch.split(grad_maxima.sum(0), [len(bias) for bias in parameters[1::2]])
        _call(
            "conv_max_pool_backward",
            char_ids,
            char_vectors,
            parameters,
            grad_weights,
            places=places,
            grad_maxima=grad_maxima,
            grad_char_vectors=grad_char_vectors,
        )
        grad_char_vectors[ctx.no_character] = 0
        pairs = zip(grad_weights, grad_biases, strict=True)
        return None, None, grad_char_vectors, *(grad for pair in pairs for grad in pair)


def _call(
    name: str,
    char_ids: Tensor,
    char_vectors: Tensor,
    parameters: Sequence[Tensor],
    grad_weights: Sequence[Tensor | None] | None = None,
    **tensors: Tensor | None,
) -> None:
    weights, biases = parameters[::2], parameters[1::2]
    grads = grad_weights or [None] * len(weights)
    convolutions = (ConvolutionStructure * len(weights))(
        *(
            ConvolutionStructure(
                weight.shape[2], len(weight), address(weight), address(bias), address(grad)
            )
            for weight, bias, grad in zip(weights, biases, grads, strict=True)
        )
    )
    words = WordsStructure(
        *char_ids.shape,
        sum(map(len, biases)),
        char_vectors.shape[1],
        len(char_vectors),
        len(convolutions),
        address(char_ids, torch.int64),
        address(char_vectors),
        convolutions,
        **{name: address(tensor, _dtype(name)) for name, tensor in tensors.items()},
    )
    library.call(name, [words])


def _dtype(name: str) -> torch.dtype:
    return torch.int32 if name == "places" else torch.float32
