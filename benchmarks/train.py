"""Speed of training compared with AI2's `bilm` trainer in one run: `make bench-train`.

Both train the small model (1024/128, 2048 filters, one highway) on the same sentences with the same
vocabulary, batch (128 x 20), 8192 negatives and Adagrad; ours before and after theirs. Prints
tokens per second, the ratio, where our step's time goes, and memory over the run.
usage: python -m benchmarks.train --text FILE [--peers FOLDER] [--script bilm_train.py]
           [--steps N] [--json FILE]
"""

import argparse
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from elmo.files.text_files import read_lines
from elmo.models.model_folder import Model
from elmo.network import kernels
from elmo.network.bilm import BiLM
from elmo.network.softmax import build_head
from elmo.pretraining.config import PretrainConfig, read_config
from elmo.pretraining.corpus import TokenCache, build_cache
from elmo.pretraining.learner import PretrainLearner, Texts
from elmo.training.distributed import Processes

SHARED = Path(__file__).parent.parent.parent / "shared"
# As the original was trained, but for the size.
AS_THE_PEER = (
    "stream.batch_size=128",
    "stream.bptt_length=20",
    "stream.reset=never",
    "head.n_negatives=8192",
    "optimizer.kind=adagrad",
    "vocabulary.max_size=40000",
    "vocabulary.min_count=1",
)
N_WARM_UP = 3
# Of the text: some hundred thousand words, so that an epoch takes a minute.
N_LINES = 6000


class Parts:
    """How long each part of a step takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: object, method: str, part: str) -> None:
        """Count the time of a method of one object."""
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*positional: object, **named: object) -> object:
            started_at = time.perf_counter()
            result = inner(*positional, **named)
            spent = time.perf_counter() - started_at
            self.seconds[part] = self.seconds.get(part, 0.0) + spent
            return result

        setattr(owner, method, timed)


class Ours:
    """Our trainer, step by step."""

    def __init__(self, cache: TokenCache, config: PretrainConfig) -> None:
        self.config = config
        vocabulary = cache.vocabulary(config.vocabulary.max_size, config.vocabulary.min_count)
        projection_dim = config.model.lstm.projection_dim
        head = build_head("sampled", len(vocabulary), projection_dim, config.head.n_negatives)
        model = Model(BiLM(config.model), head, vocabulary)
        alone = Processes(0, 1, torch.device("cpu"))
        self.learner = PretrainLearner(model, Texts(cache, cache), config, alone)
        self.streams = self.learner.streams
        self.parts = Parts()
        self.parts.watch(self.streams, "batch", "data")
        self.parts.watch(model.bilm, "token_vectors", "characters, forward")
        self.parts.watch(model.bilm, "run", "LSTMs, forward")
        self.parts.watch(head, "loss", "head, both ways")
        self.parts.watch(self.learner._optimizer, "step", "optimizer")
        self.step = 0

    def run(self, n_steps: int) -> float:
        """Tokens per second over some steps."""
        started_at = time.perf_counter()
        for _ in range(n_steps):
            assert self.config.optimizer.learning_rate is not None
            self.learner.step(self.step, self.config.optimizer.learning_rate)
            self.step += 1
        n_tokens = n_steps * self.streams.batch_size * self.streams.bptt_length
        return n_tokens / (time.perf_counter() - started_at)


def write_for_peer(cache: TokenCache, config: PretrainConfig, folder: Path) -> None:
    """Tokenized sentences and a vocabulary, as `bilm` reads them."""
    with (folder / "sentences.txt").open("w", encoding="utf-8") as file:
        for number in range(cache.counts.n_sentences):
            words = cache.sentence(number)
            # It splits on any space, so a token must have none.
            if all(len(word.split()) == 1 for word in words):
                file.write(" ".join(words) + "\n")
    vocabulary = cache.vocabulary(config.vocabulary.max_size, config.vocabulary.min_count)
    vocabulary.write(folder / "vocab.txt")


def run_peer(python: Path, script: Path, folder: Path, n_batches: int) -> float | None:
    """Tokens per second of `bilm`, or nothing where it is not installed."""
    if not python.exists() or not script.exists():
        print(f"the peer is not here ({python}, {script}): ours is measured alone")
        return None
    arguments = [str(folder / "sentences.txt"), str(folder / "vocab.txt"), "--batches"]
    finished = subprocess.run(
        [str(python), str(script), *arguments, str(n_batches)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(finished.stdout.strip().split("\n")[-1])["tokens_per_second"])


def peak_megabytes() -> float:
    """The highest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def sizes_over_epoch(cache: TokenCache, n_moments: int = 8) -> list[float]:
    """Memory at some moments of an epoch: all of the text, read by a tiny model."""
    ours = Ours(cache, read_config("tiny", None, AS_THE_PEER))
    n_steps = round(1 / ours.streams.n_epochs_read(1))
    sizes = []
    for _ in range(n_moments):
        ours.run(n_steps // n_moments)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sizes.append(pages * resource.getpagesize() / 2**20)
    return sizes


def describe(megabytes: list[float]) -> str:
    """Memory from moment to moment."""
    return " -> ".join(f"{size:.0f}" for size in megabytes) + " MB"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    default_text = SHARED / "data" / "wiki" / "train-00.txt.xz"
    parser.add_argument("--text", type=Path, default=default_text)
    parser.add_argument("--peers", type=Path, default=Path.home() / ".cache" / "elmo-peers")
    parser.add_argument("--script", type=Path, default=SHARED / "peers" / "bilm_train.py")
    parser.add_argument("--steps", type=int, default=15, help="ours, before and after the peer")
    parser.add_argument("--batches", type=int, default=12, help="the peer's")
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    config = read_config("small", None, AS_THE_PEER)
    kernels.keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        with text.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in islice(read_lines(settings.text), N_LINES))
        cache = build_cache([text], folder / "cache")
        write_for_peer(cache, config, folder)
        ours = Ours(cache, config)
        ours.run(N_WARM_UP)
        ours.parts.seconds.clear()
        memory = [peak_megabytes()]
        rates = [ours.run(settings.steps)]
        python = settings.peers / "bilm" / "bin" / "python"
        peer = run_peer(python, settings.script, folder, settings.batches)
        memory.append(peak_megabytes())
        rates.append(ours.run(settings.steps))
        memory.append(peak_megabytes())
        over_epoch = sizes_over_epoch(cache)
    rate = sum(rates) / len(rates)
    print(f"ours    {rate:8.0f} tokens/s (before the peer {rates[0]:.0f}, after {rates[1]:.0f})")
    if peer is not None:
        print(f"bilm    {peer:8.0f} tokens/s\nratio   {rate / peer:8.2f}")
    n_steps = 2 * settings.steps
    for part, seconds in ours.parts.seconds.items():
        print(f"  {part:20} {1000 * seconds / n_steps:7.1f} ms a step")
    print(f"peak memory of these steps: {describe(memory)}")
    print(f"memory over an epoch of {cache.counts.n_tokens:,} tokens: {describe(over_epoch)}")
    if settings.json:
        result = {"ours": rates, "bilm": peer, "peak_megabytes": memory, "over_epoch": over_epoch}
        settings.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
