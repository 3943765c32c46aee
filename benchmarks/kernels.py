"""Speed of the kernels on one thread, in CPU time, which other processes hardly affect.

Sections: `layers`, one biLSTM layer at the released sizes against PyTorch and its matrix product;
`words`, the parts of the token layer; `bfloat16`, the speedup by bfloat16 weights; `amx`, the same
and bfloat16 training with and without AMX, where the processor has it; `training`, two layers with
gradients; `builds`, embedding with a native build, the wheel's prebuilt one and none.
usage: python -m benchmarks.kernels [--only SECTION ...] [--json FILE]
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.embed import TEXT, Bench
from benchmarks.measured import PEERS, ROOT, Worker, conditions, in_turns, store
from elmo.network import kernels
from elmo.network.char_cnn import CharCNN, Highway
from elmo.network.kernels import build
from elmo.network.lstm import LstmLayer
from elmo.network.lstm import _run_plain as run_plain  # the reference has no public name

SIZES = {"small": (1024, 128), "medium": (2048, 256), "original": (4096, 512)}  # H, P
N_TIMES = 5
DISTINCT = 0.45  # share of distinct words among a training batch's tokens, as in real text


def best_seconds(work: Callable[[], object]) -> float:
    """The shortest of N_TIMES runs, in seconds of this thread."""
    seconds = []
    for _ in range(N_TIMES):
        started_at = time.thread_time()
        work()
        seconds.append(time.thread_time() - started_at)
    return min(seconds)


def make_layers(dim: int, projection_dim: int) -> list[LstmLayer]:
    """A layer of this size for each direction."""
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
    """The outputs of both directions, by the kernels or by PyTorch."""
    states = [layer.initial_state(batch_sizes[0]) for layer in layers]
    if is_fast:
        pairs = [(state.hidden, state.cell) for state in states]
        return kernels.run_layers(layers, rows, index, batch_sizes, pairs)[0]
    directions = zip(layers, rows, index, states, strict=True)
    return [
        run_plain(layer, row, which, state, None, batch_sizes)[0]
        for layer, row, which, state in directions
    ]


def measure_product() -> float:
    """GFLOP/s of a large matrix product."""
    left, right = torch.randn(2048, 1024), torch.randn(1024, 2048)
    return 2 * 2048 * 2048 * 1024 / best_seconds(lambda: left @ right) / 1e9


def measure_layers() -> dict[str, Any]:
    """GFLOP/s of one layer of both directions, by size and number of rows."""
    found = {}
    for name, (dim, projection_dim) in SIZES.items():
        layers = make_layers(dim, projection_dim)
        for batch in (1, 16, 64, 128):
            n_steps = max(2, min(50, 100_000_000 // (batch * dim * projection_dim)))
            rows = [torch.randn(batch * n_steps, projection_dim)] * 2
            gflop = 2 * 2 * batch * n_steps * 9 * dim * projection_dim / 1e9
            arguments = layers, rows, [None, None], [batch] * n_steps
            with torch.no_grad():
                speeds = {
                    way: gflop / best_seconds(partial(run, is_fast, *arguments))
                    for way, is_fast in (("kernel", True), ("torch", False))
                }
                found[f"{name}, {batch}"] = {**speeds, "product": measure_product()}
    return {"gflops": found}


def measure_words() -> dict[str, Any]:
    """Milliseconds of the token layer's parts, by the number of words."""
    filters = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
    cnn = CharCNN(
        char_dim=16, filters=filters, n_highways=1, activation="relu", output_dim=128
    ).requires_grad_(False)
    parameters = list(cnn.convolutions.parameters())
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    highway = cnn.highways[0]
    assert isinstance(highway, Highway)

    def convolve(char_ids: Tensor) -> list[Tensor]:
        characters = cnn.char_vectors(char_ids).transpose(1, 2)
        return [convolution(characters).amax(-1) for convolution in cnn.convolutions]

    def mix(rows: Tensor) -> Tensor:
        gate = torch.sigmoid(highway.gate(rows))
        return torch.lerp(rows, highway.transform(rows).relu(), gate)

    found = {}
    for n_words in (25, 256, 1024):
        char_ids = torch.full((n_words, 20), 261)  # padding after spellings of about 7 letters
        for row in char_ids:
            n_letters = int(torch.randint(1, 13, ()))
            row[: n_letters + 2] = torch.randint(98, 123, (n_letters + 2,))
        rows = torch.rand(n_words, 2048)
        vectors = cnn.char_vectors.weight
        works = {
            "convolutions": partial(kernels.conv_max_pool, char_ids, vectors, pairs, 0),
            "torch's convolutions": partial(convolve, char_ids),
            "highway": partial(kernels.run_highway, highway.transform, highway.gate, rows),
            "torch's highway": partial(mix, rows),
        }
        found[str(n_words)] = {name: 1000 * best_seconds(work) for name, work in works.items()}
    return {"milliseconds": found}


def measure_bfloat16() -> dict[str, Any]:
    """Speedup of one layer over float32, by size and number of rows."""
    found = {}
    for (name, (dim, projection_dim)), batch in itertools.product(SIZES.items(), (1, 16, 64)):
        n_steps = 25 if batch == 1 else 4
        layers = make_layers(dim, projection_dim)
        rows = [torch.randn(batch * n_steps, projection_dim)] * 2
        work = partial(run, True, layers, rows, [None, None], [batch] * n_steps)
        with torch.no_grad():
            exact, seconds = work()[0], best_seconds(work)
            for layer in layers:
                for weight in layer.parameters():
                    weight.data = weight.data.to(torch.bfloat16 if weight.ndim == 2 else None)
            difference = float((work()[0] - exact).norm() / exact.norm())
            ratio = seconds / best_seconds(work)
        found[f"{name}, {batch}"] = {"ratio": ratio, "difference": difference}
    return {"multiplies": kernels.multiplies_bfloat16(), "layers": found}


def train_step(is_fast: bool, stack: Sequence[list[LstmLayer]], rows: Tensor, batch: int) -> None:
    """Forward and backward pass of two layers."""
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


def training_speed(dim: int, projection_dim: int, *, is_fast: bool) -> float:
    """Tokens per second through two layers, forward and backward."""
    stack = [make_layers(dim, projection_dim) for _ in range(2)]
    n_tokens = 128 * 20
    rows = torch.randn(int(n_tokens * DISTINCT) + 1, projection_dim, requires_grad=True)
    return n_tokens / best_seconds(partial(train_step, is_fast, stack, rows, 128))


def measure_training() -> dict[str, Any]:
    """Tokens per second of training with the kernels and with PyTorch."""
    found = {
        f"{dim} cells": {
            way: training_speed(dim, projection_dim, is_fast=is_fast)
            for way, is_fast in (("kernel", True), ("torch", False))
        }
        for dim, projection_dim in ((512, 128), (1024, 128))
    }
    return {"tokens_per_second": found}


def measure_amx() -> dict[str, Any]:
    """Layers and training in bfloat16 in processes whose library has AMX or is built without it."""
    command = [sys.executable, "-m", "benchmarks.kernels", "--only", "bfloat16-both"]
    compiler = os.environ.get("CXX", "c++")
    found = {}
    for way, options in (("amx", ""), ("avx512", " -DNO_AMX")):
        with tempfile.TemporaryDirectory() as folder:
            environment = {"ELMO_KERNELS": "native", "CXX": compiler + options}
            result = Path(folder) / "result.json"
            subprocess.run(
                [*command, "--json", str(result)], check=True, env=os.environ | environment
            )
            found[way] = json.loads(result.read_text())["bfloat16-both"]
    return found


def measure_bfloat16_both() -> dict[str, Any]:
    """What `measure_amx` compares."""
    speeds = {}
    for dtype in ("float32", "bfloat16"):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            speeds[dtype] = training_speed(1024, 256, is_fast=True)
    return measure_bfloat16() | {"training": speeds}


def measure_builds(n_rounds: int = 5) -> dict[str, Any]:
    """CPU seconds of embedding with each kernel library that a user may have."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder, TEXT, PEERS, n_rounds)
        file, n_tokens = bench.write("builds.txt", bench.sentences[:200])
        model = bench.make_model("small")
        installed = install_as_wheel(folder / "installed")
        workers = {
            which: Worker(
                sys.executable,
                "elmo_worker.py",
                model,
                file,
                environment={
                    "PYTHONPATH": str(installed),
                    "ELMO_KERNELS": which,
                    "OMP_NUM_THREADS": "1",
                },
            )
            for which in ("native", "prebuilt", "off")
        }
        described = {which: each.run("describe")["kernels"] for which, each in workers.items()}
        jobs = {
            f"{which}, {words}": partial(cpu_seconds, each, is_cold)
            for which, each in workers.items()
            for words, is_cold in (("new words", True), ("known words", False))
        }
        seconds = in_turns(jobs, n_rounds)
        for each in workers.values():
            each.__exit__()
    return {"n_tokens": n_tokens, "described": described, "seconds": seconds}


def cpu_seconds(worker: Worker, is_cold: bool) -> float:
    """CPU seconds of embedding all sentences."""
    return float(worker.run("embed", is_cold=is_cold)["cpu_seconds"])


def install_as_wheel(folder: Path) -> Path:
    """Copy the package, and add the prebuilt libraries of a wheel."""
    shutil.copytree(ROOT / "src" / "elmo", folder / "elmo")
    prebuilt = folder / "elmo" / "network" / "kernels" / "prebuilt"
    prebuilt.mkdir()
    for name, flags in build.VARIANTS.get(os.uname().machine, {}).items():
        build.compile_library([*build.find_compiler(), *flags], prebuilt / f"{name}.so")
    return folder


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "layers": measure_layers,
    "words": measure_words,
    "bfloat16": measure_bfloat16,
    "amx": measure_amx,
    "training": measure_training,
    "builds": measure_builds,
}


PARTS = {"bfloat16-both": measure_bfloat16_both}  # of a section, in a process of its own


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*SECTIONS, *PARTS]
    parser.add_argument("--only", nargs="+", choices=names, default=list(SECTIONS))
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    kernels.keep_freed_memory()
    for name in settings.only:
        before = conditions()
        store(settings.json, name, {"environment": before, **(SECTIONS | PARTS)[name]()})


if __name__ == "__main__":
    main()
