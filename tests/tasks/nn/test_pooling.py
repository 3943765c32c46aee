import torch

from elmo.tasks.nn.pooling import (
    masked_softmax,
    max_over_tokens,
    mean_over_tokens,
    min_over_tokens,
)


def test_pooling_sees_no_padding():
    torch.manual_seed(1)
    vectors, mask = torch.randn(2, 4, 3) - 5, torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    vectors[1, 2:] = 99.0
    short = vectors[1, :2]
    torch.testing.assert_close(max_over_tokens(vectors, mask)[1], short.amax(0))
    torch.testing.assert_close(min_over_tokens(vectors, mask)[1], short.amin(0))
    torch.testing.assert_close(mean_over_tokens(vectors, mask)[1], short.mean(0))
    weights = masked_softmax(vectors[..., 0], mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2))
    assert not weights[1, 2:].any()
