import torch

from elmo.tasks.sentiment.model import Maxout, RowNorm


def test_maxout_is_the_maximum_of_its_linear_layers():
    torch.manual_seed(1)
    maxout, x = Maxout(3, 2, 4), torch.randn(5, 3)
    pieces = maxout.linear(x)
    expected = torch.stack([pieces[:, :4].amax(1), pieces[:, 4:].amax(1)], dim=1)
    torch.testing.assert_close(maxout(x), expected)


def test_a_batch_is_normalized_and_a_single_row_by_running_averages():
    torch.manual_seed(1)
    norm, x = RowNorm(3), 5 + 2 * torch.randn(40, 3)
    expected = (x - x.mean(0)) / x.std(0, unbiased=False)
    torch.testing.assert_close(norm(x), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(norm.running_mean, x.mean(0))
    kept = (norm.running_mean.clone(), norm.running_var.clone())
    alone = norm(x[:1])
    assert torch.equal(norm.running_mean, kept[0])
    torch.testing.assert_close(alone, (x[:1] - kept[0]) / (kept[1] + norm.eps).sqrt())
    torch.testing.assert_close(norm.eval()(x)[:1], alone)
