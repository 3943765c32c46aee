"""How near the compiled recurrence comes to the machine's limit, a matrix product of the same run.

Prints, at the released sizes, the token layer's parts against torch's; the arithmetic of one biLSTM
layer per second against torch's float32 product and the plain path; what bfloat16 gains; and
training, in tokens per second through two layers.
`--single` measures one thread by its own processor time, which other work hardly disturbs.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.network import kernels
from elmo.network.char_cnn import CharCNN, Highway
from elmo.network.lstm import LstmLayer
from elmo.network.lstm import _run_plain as run_plain  # what is measured against has no public name

SIZES = {"small": (1024, 128), "medium": (2048, 256), "original": (4096, 512)}  # H, P
N_TIMES = 5
DISTINCT = 0.45  # of a training batch's tokens, as in real text


@dataclass(frozen=True)
class Clock:
    """Best of several runs, by the wall or by this thread's own time."""

    now: Callable[[], float]

    def best_seconds(self, work: Callable[[], object]) -> float:
        """The shortest of N_TIMES runs."""
        seconds = []
        for _ in range(N_TIMES):
            started_at = self.now()
            work()
            seconds.append(self.now() - started_at)
        return min(seconds)


def make_layers(dim: int, projection_dim: int) -> list[LstmLayer]:
    """The same layer of both directions."""
    return [
        LstmLayer(
            input_dim=projection_dim,
            dim=dim,
            projection_dim=projection_dim,
            cell_clip=3.0,
            projection_clip=3.0,
        )
        for _ in range(2)
    ]


def run(
    is_fast: bool,
    layers: Sequence[LstmLayer],
    rows: Sequence[Tensor],
    index: Sequence[Tensor | None],
    batch_sizes: list[int],
) -> list[Tensor]:
    """The outputs of both directions."""
    states = [layer.initial_state(batch_sizes[0]) for layer in layers]
    if is_fast:
        pairs = [(state.hidden, state.cell) for state in states]
        return kernels.run_layers(layers, rows, index, batch_sizes, pairs)[0]
    directions = zip(layers, rows, index, states, strict=True)
    return [
        run_plain(layer, row, which, state, None, batch_sizes)[0]
        for layer, row, which, state in directions
    ]


def measure_peak(clock: Clock) -> float:
    """GFLOP/s of a large product."""
    left, right = torch.randn(2048, 1024), torch.randn(1024, 2048)
    return 2 * 2048 * 2048 * 1024 / clock.best_seconds(lambda: left @ right) / 1e9


def measure_inference(clock: Clock) -> None:
    """Print one layer's speed at the released sizes."""
    print("one biLSTM layer, GFLOP/s   | batch | kernel | plain | product | kernel/product")
    for name, (dim, projection_dim) in SIZES.items():
        layers = make_layers(dim, projection_dim)
        for batch in (1, 16, 64, 128):
            n_steps = max(2, min(50, 200_000_000 // (batch * dim * projection_dim)))
            rows = [torch.randn(batch * n_steps, projection_dim)] * 2
            gflop = 2 * 2 * batch * n_steps * 9 * dim * projection_dim / 1e9
            arguments = layers, rows, [None, None], [batch] * n_steps
            with torch.no_grad():
                peak = measure_peak(clock)
                fast, plain = (
                    gflop / clock.best_seconds(lambda a=arguments, f=is_fast: run(f, *a))
                    for is_fast in (True, False)
                )
            print(
                f"{name:9} H={dim:4} P={projection_dim:3}     | {batch:5} | {fast:6.1f} "
                f"| {plain:5.1f} | {peak:7.1f} | {fast / peak:.0%}"
            )


def train_step(is_fast: bool, stack: Sequence[list[LstmLayer]], rows: Tensor, batch: int) -> None:
    """Two layers there and back."""
    n_tokens = int(len(rows) / DISTINCT)
    batch_sizes = [batch] * (n_tokens // batch)
    n_tokens = sum(batch_sizes)
    index: list[Tensor | None] = [torch.randint(len(rows), (n_tokens,)) for _ in range(2)]
    inputs = [rows, rows]
    for layers in stack:
        inputs = run(is_fast, layers, inputs, index, batch_sizes)
        index = [None, None]
    sum(each.square().sum() for each in inputs).backward()
    for layers in stack:
        for layer in layers:
            layer.zero_grad()


def measure_training(clock: Clock) -> None:
    """Print the speed of training steps."""
    print("two biLSTM layers, training  | batch     | kernel tokens/s (GFLOP/s) | plain | product")
    for dim, projection_dim in ((512, 128), (1024, 128)):
        stack = [make_layers(dim, projection_dim) for _ in range(2)]
        for batch, n_steps in ((64, 32), (128, 20)):
            n_tokens = batch * n_steps
            rows = torch.randn(int(n_tokens * DISTINCT) + 1, projection_dim, requires_grad=True)
            n_inputs, weight = len(rows) + n_tokens, 2 * 2 * 3 * dim * projection_dim
            gflop = weight * (4 * n_inputs + 5 * 2 * n_tokens) / 1e9
            peak = measure_peak(clock)
            fast, plain = (
                clock.best_seconds(
                    lambda s=stack, r=rows, b=batch, f=is_fast: train_step(f, s, r, b)
                )
                for is_fast in (True, False)
            )
            print(
                f"H={dim:4} P={projection_dim:3}                 | {batch:3} x {n_steps:3} "
                f"| {n_tokens / fast:8.0f} ({gflop / fast:5.1f})          "
                f"| {n_tokens / plain:5.0f} | {peak:5.1f}"
            )


def measure_words(clock: Clock) -> None:
    """Print the token layer's speed at the released filters."""
    filters = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
    cnn = CharCNN(
        char_dim=16, filters=filters, n_highways=1, activation="relu", output_dim=128
    ).requires_grad_(False)
    parameters = list(cnn.convolutions.parameters())
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    highway = cnn.highways[0]
    assert isinstance(highway, Highway)
    print("token layer, milliseconds    | words | convolutions | torch's | highway | torch's")
    for n_words in (25, 256, 1024):
        char_ids = torch.full((n_words, 20), 261)  # padding after spellings of about 7 letters
        for row in char_ids:
            n_letters = int(torch.randint(1, 13, ()))
            row[: n_letters + 2] = torch.randint(98, 123, (n_letters + 2,))
        rows = torch.rand(n_words, 2048)

        def convolve(char_ids: Tensor = char_ids) -> list[Tensor]:
            characters = cnn.char_vectors(char_ids).transpose(1, 2)
            return [convolution(characters).amax(-1) for convolution in cnn.convolutions]

        works = [
            lambda i=char_ids: kernels.conv_max_pool(i, cnn.char_vectors.weight, pairs, 0),
            convolve,
            lambda r=rows: kernels.run_highway(highway.transform, highway.gate, r),
            lambda r=rows: torch.lerp(
                r, highway.transform(r).relu(), torch.sigmoid(highway.gate(r))
            ),
        ]
        times = [1000 * clock.best_seconds(work) for work in works]
        print(
            f"{'':28} | {n_words:5} | {times[0]:12.2f} | {times[1]:7.2f} "
            f"| {times[2]:7.2f} | {times[3]:7.2f}"
        )


def measure_bfloat16(clock: Clock) -> None:
    """Print what weights stored in bfloat16 gain, and what they cost in exactness."""
    print("one biLSTM layer in bfloat16 | batch | times as fast | relative difference")
    for name, (dim, projection_dim) in SIZES.items():
        for batch in (1, 4, 64):
            n_steps = 25 if batch == 1 else 4
            layers = make_layers(dim, projection_dim)
            rows = [torch.randn(batch * n_steps, projection_dim)] * 2
            arguments = layers, rows, [None, None], [batch] * n_steps
            with torch.no_grad():
                exact = run(True, *arguments)[0]
                seconds = clock.best_seconds(lambda a=arguments: run(True, *a))
                for layer in layers:
                    for weight in (
                        layer.input_weight,
                        layer.recurrent_weight,
                        layer.projection_weight,
                    ):
                        weight.data = weight.data.to(torch.bfloat16)
                rounded = run(True, *arguments)[0]
                ratio = seconds / clock.best_seconds(lambda a=arguments: run(True, *a))
            difference = float((rounded - exact).norm() / exact.norm())
            print(f"{name:28} | {batch:5} | {ratio:13.2f} | {difference:.1e}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", action="store_true", help="one thread, by processor time")
    if parser.parse_args().single:
        torch.set_num_threads(1)
    clock = Clock(time.thread_time if torch.get_num_threads() == 1 else time.perf_counter)
    print(f"{torch.get_num_threads()} threads; kernels: {kernels.why_unavailable() or 'built'}")
    kernels.keep_freed_memory()
    measure_words(clock)
    measure_inference(clock)
    measure_bfloat16(clock)
    measure_training(clock)


if __name__ == "__main__":
    main()
