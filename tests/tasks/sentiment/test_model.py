import torch

from elmo.tasks.sentiment.model import Maxout


def test_maxout_is_the_maximum_of_its_linear_layers():
    torch.manual_seed(1)
    maxout, x = Maxout(3, 2, 4), torch.randn(5, 3)
    pieces = maxout.linear(x)
    expected = torch.stack([pieces[:, :4].amax(1), pieces[:, 4:].amax(1)], dim=1)
    torch.testing.assert_close(maxout(x), expected)
