"""Speed on a GPU, which has not been measured yet: `python -m benchmarks.gpu --json FILE`.

Compares vectors with those of the CPU, then measures embedding and training steps at the released
sizes, in float32, TF32 and bfloat16. Without a GPU it only counts the kernels that a GPU would have
to launch in a step, with torch's CPU profiler.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.measured import conditions, store
from elmo.network.bilm import BiLM
from elmo.network.config import preset, tiny

BATCH_SIZE, N_STEPS = 128, 30
# Operations that launch no kernel: views, allocations, and those that only call others.
NO_LAUNCH = frozenset(
    f"aten::{name}"
    for name in re.findall(
        r"\w+",
        """alias as_strided chunk detach dropout empty empty_strided expand linear matmul narrow
        numpy_T permute reshape resize_ resolve_conj resolve_neg select slice split t transpose
        unbind unsqueeze view""",
    )
)


def count_launches(bilm: BiLM, n_steps: int, batch_size: int = 4) -> dict[str, int]:
    """How often each operation that launches a kernel is called over some steps of all layers.

    Runs in float64, for which the CPU kernels fall back to the code path of GPUs.
    """
    bilm = bilm.double()
    n_tokens = n_steps * batch_size
    vectors = torch.randn(n_tokens, bilm.config.lstm.projection_dim, dtype=torch.float64)
    index = [torch.arange(n_tokens)] * len(bilm.config.directions)
    state = bilm.initial_state(batch_size)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        bilm.run(vectors, index, [batch_size] * n_steps, state)
    counts: dict[str, int] = {}

    def count(events: Iterable[Any]) -> None:
        for event in events:
            if event.name in NO_LAUNCH:
                count(event.cpu_children)
            elif event.name.startswith("aten::"):  # the operations it calls on a CPU are part of it
                counts[event.name] = counts.get(event.name, 0) + 1

    count(event for event in profiler.events() if event.cpu_parent is None)
    return counts


def launches_per_step(bilm: BiLM) -> float:
    """Kernel launches per step, layer and direction."""
    few, more = (sum(count_launches(bilm, n_steps).values()) for n_steps in (10, 20))
    return (more - few) / 10 / bilm.config.lstm.n_layers / len(bilm.config.directions)


def best_seconds(work: Callable[[], object], n_times: int = 5) -> float:
    """Seconds of the fastest run, until the GPU has finished all work."""
    seconds = []
    for _ in range(n_times + 1):  # the first one warms up
        torch.cuda.synchronize()
        started_at = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started_at)
    return min(seconds[1:])


def measure(size: str) -> dict[str, Any]:
    """Tokens per second of embedding and of training steps without the softmax."""
    torch.manual_seed(1)
    bilm = BiLM(preset(size)).eval()
    word_index = torch.randint(2, 1000, (BATCH_SIZE, N_STEPS))
    lengths = torch.full((BATCH_SIZE,), N_STEPS)
    vectors = torch.randn(1000, bilm.config.lstm.projection_dim)
    with torch.no_grad():
        expected = bilm.contextualize(vectors, word_index[:4], lengths[:4]).layers
    bilm, vectors, word_index = bilm.cuda(), vectors.cuda(), word_index.cuda()
    with torch.no_grad():
        found = bilm.contextualize(vectors, word_index[:4], lengths[:4]).layers.cpu()

    def embed() -> None:
        with torch.no_grad():
            bilm.contextualize(vectors, word_index, lengths)

    def train() -> None:
        bilm.contextualize(vectors, word_index, lengths).layers.square().mean().backward()
        bilm.zero_grad(set_to_none=True)

    def in_bfloat16(work: Callable[[], None]) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            work()

    result: dict[str, Any] = {"largest_difference": float((found - expected).abs().max())}
    for name, is_tf32 in (("float32", False), ("tf32", True)):
        torch.backends.cuda.matmul.allow_tf32 = is_tf32
        result[name] = {
            "embed": BATCH_SIZE * N_STEPS / best_seconds(embed),
            "train": BATCH_SIZE * N_STEPS / best_seconds(train),
        }
    result["bfloat16"] = {
        "embed": BATCH_SIZE * N_STEPS / best_seconds(partial(in_bfloat16, embed)),
        "train": BATCH_SIZE * N_STEPS / best_seconds(partial(in_bfloat16, train)),
    }
    return result


def main() -> None:
    """Count kernel launches, and measure speed if there is a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    counted = {"per_step": launches_per_step(BiLM(tiny()).eval())}
    store(settings.json, "launches", {"environment": conditions(), **counted})
    if not torch.cuda.is_available():
        print("no GPU: nothing else is measured")
        return
    for size in ("small", "medium", "original"):
        gpu = torch.cuda.get_device_name()
        store(settings.json, size, {"environment": conditions(gpu=gpu), **measure(size)})


if __name__ == "__main__":
    main()
