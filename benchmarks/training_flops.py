"""FLOPs of training per token, computed from the sizes, for the estimates of docs/pretraining.md.

Counts multiplications and additions of the matrix products of one token in the forward pass, and
three times that for a training step.
usage: python -m benchmarks.training_flops [SIZE ...] [--teraflops PEAK --share SHARE]
"""

import argparse

from elmo.network.config import PRESETS, BiLMConfig, preset

# Distinct words among the tokens of a batch of real text, as measured for 64 x 48.
DISTINCT_SHARE = 0.45
N_NEGATIVES = 8192
# AI2 reports: 10 epochs of 768,648,884 tokens in about two weeks on three GTX 1080, whose float32
# peak is 8.9 TFLOP/s each.
ORIGINAL_TOKENS_PER_SECOND = 10 * 768_648_884 / (14 * 24 * 3600)
ORIGINAL_PEAK = 3 * 8.9e12
CORPUS_TOKENS = 768_648_884


def forward_operations(config: BiLMConfig) -> dict[str, float]:
    """Operations of one token in both directions, by part."""
    lstm, cnn = config.lstm, config.char_cnn
    assert cnn is not None
    n_filters, width = cnn.n_filters, lstm.projection_dim
    highways = cnn.n_highways * 2 * n_filters * 2 * n_filters
    layer = 2 * (2 * width) * 4 * lstm.dim + 2 * lstm.dim * width
    return {
        # Our convolutions are sums of table rows, whose cost is negligible.
        "characters": DISTINCT_SHARE * (highways + 2 * n_filters * width),
        "LSTMs": 2 * lstm.n_layers * layer,
        "head": 2 * 2 * N_NEGATIVES * width,
    }


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", default=list(PRESETS))
    parser.add_argument("--teraflops", type=float, default=19.5, help="a GPU's peak, float32")
    parser.add_argument("--share", type=float, help="of it that training reaches")
    chosen = parser.parse_args()
    original = 3 * sum(forward_operations(preset("original")).values())
    reached = original * ORIGINAL_TOKENS_PER_SECOND / ORIGINAL_PEAK
    share = chosen.share or reached
    print(f"AI2's own training reached {reached:.0%} of its GPUs' peak; assumed here: {share:.0%}")
    print("| size | MFLOP a token | characters / LSTMs / head | tokens/s | hours an epoch of 1B |")
    print("|---|---|---|---|---|")
    for size in chosen.sizes:
        parts = forward_operations(preset(size))
        operations = 3 * sum(parts.values())
        rate = chosen.teraflops * 1e12 * share / operations
        shares = " / ".join(f"{part / sum(parts.values()):.0%}" for part in parts.values())
        hours = CORPUS_TOKENS / rate / 3600
        print(f"| {size} | {operations / 1e6:.0f} | {shares} | {rate:,.0f} | {hours:.1f} |")


if __name__ == "__main__":
    main()
