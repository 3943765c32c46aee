"""Speed of pre-training next to AI2's `bilm` trainer in the same run: `make bench-train`.

Both train the small model (1024 cells, projection 128, 2048 filters, one highway) on the same
sentences with the same vocabulary, batch (128 x 20), 8192 negatives and Adagrad, in turns. Memory
is measured in a separate process that trains the same model. Every round is stored.
usage: python -m benchmarks.train [--only SECTION ...] [--rounds N] [--text FILE] [--json FILE]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.measured import PEERS, ROOT, Worker, conditions, in_turns, store, version_in
from elmo.files.text_files import read_lines
from elmo.pretraining.config import read_config
from elmo.pretraining.corpus import TokenCache, build_cache

TEXT = ROOT.parent / "shared" / "data" / "wiki" / "train-00.txt.xz"
# The settings with which the original was trained, except for the size.
AS_THE_PEER = (
    "stream.batch_size=128",
    "stream.bptt_length=20",
    "stream.reset=never",
    "head.n_negatives=8192",
    "optimizer.kind=adagrad",
    "vocabulary.max_size=40000",
    "vocabulary.min_count=1",
)
N_LINES = 6000  # of the text, with more words than the steps read
N_WARM_UP = 3
N_STEPS = 12  # our steps per round
N_BATCHES = 8  # the peer's batches per round, of which the first three are not counted


def write_for_peer(cache: TokenCache, folder: Path) -> None:
    """Write tokenized sentences and a vocabulary in the format of `bilm`."""
    with (folder / "sentences.txt").open("w", encoding="utf-8") as file:
        for number in range(cache.counts.n_sentences):
            words = cache.sentence(number)
            # `bilm` splits on any whitespace, so a token must have none.
            if all(len(word.split()) == 1 for word in words):
                file.write(" ".join(words) + "\n")
    settings = read_config("small", None, AS_THE_PEER).vocabulary
    vocabulary = cache.vocabulary(settings.max_size, settings.min_count)
    vocabulary.write(folder / "vocab.txt")


def rate_of_peer(python: Path, folder: Path) -> float:
    """Tokens per second of `bilm`."""
    script = ROOT / "benchmarks" / "workers" / "bilm_trainer.py"
    arguments = [script, folder / "sentences.txt", folder / "vocab.txt", N_BATCHES]
    done = subprocess.run(
        [str(python), *map(str, arguments)], capture_output=True, text=True, check=True
    )
    rates: list[float] = json.loads(done.stdout.strip().split("\n")[-1])
    return 1 / mean(1 / rate for rate in rates)


def measure_speed(folder: Path, cache: Path, python: Path, n_rounds: int) -> dict[str, Any]:
    """Speed of this package and, if it is installed, of the peer, in turns."""
    with start_ours(cache) as ours:
        ours.run("train", n_steps=N_WARM_UP)
        steps: list[dict[str, Any]] = []

        def rate_of_ours() -> float:
            steps.append(ours.run("train", n_steps=N_STEPS))
            return float(steps[-1]["rate"])

        jobs = {"ours": rate_of_ours}
        if python.exists():
            jobs["bilm"] = partial(rate_of_peer, python, folder)
        else:
            print(f"{python}: not there, ours is measured alone", file=sys.stderr)
        rates = in_turns(jobs, n_rounds)
    quickest = min(steps, key=lambda each: float(each["step"]))
    return {
        "tokens_per_second": rates,
        "seconds_of_step": round(quickest["step"], 4),
        "seconds_by_part": {name: round(s, 4) for name, s in quickest["parts"].items()},
    }


def measure_memory(cache: Path) -> dict[str, Any]:
    """Memory of the whole process over some steps."""
    n_moments, n_steps = 6, 6
    with start_ours(cache) as ours:
        found = ours.run("train_and_weigh", n_moments=n_moments, n_steps=n_steps)
    return {
        "n_tokens": n_moments * n_steps * 128 * 20,
        "megabytes": [round(size / 2**20) for size in found["bytes"]],
        "peak_megabytes": round(found["peak"] / 2**20),
    }


def start_ours(cache: Path) -> Worker:
    """A worker of this package's trainer."""
    return Worker(sys.executable, "elmo_trainer.py", cache, *AS_THE_PEER)


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    sections = ("speed", "memory")
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    python = settings.peers / "bilm" / "bin" / "python"
    versions = {
        package: version_in(python, package)
        for package in ("bilm", "tensorflow-cpu")
        if python.exists()
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        with text.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in islice(read_lines(settings.text), N_LINES))
        cache = build_cache([text], folder / "cache")
        write_for_peer(cache, folder)
        measure = {
            "speed": lambda: measure_speed(folder, cache.folder, python, settings.rounds),
            "memory": lambda: measure_memory(cache.folder),
        }
        for section in settings.only:
            before = conditions(**versions)
            store(settings.json, section, {"environment": before, **measure[section]()})


if __name__ == "__main__":
    main()
