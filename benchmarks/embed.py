"""Speed of embedding compared with AllenNLP in one run: `make bench`; peers.sh installs AllenNLP.

Both read the same random weights of a released size and the same real sentences, in turns; each
time is the best of several. Prints a table of ratios; `--json` and `--plot` write it.
usage: python -m benchmarks.embed [--text FILE] [--json FILE] [--plot FILE] [--rounds N] [--quick]
"""

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.files.text_files import read_blocks
from elmo.models import formats
from elmo.models.model_folder import Model
from elmo.network import config
from elmo.network.bilm import BiLM
from elmo.text.tokenizer import split_text

HERE = Path(__file__).parent
Setting = str | int | bool | None
TEXT = HERE.parent.parent / "shared" / "data" / "wiki" / "heldout.txt.xz"
ALLENNLP_BATCHES = (16, 32, 64)
IMPORT_OURS = (
    "from elmo import Elmo; Elmo.load({model!r}).embed_tokens([['I', 'took', 'a', 'bow', '.']])"
)
IMPORT_ALLENNLP = (
    "import sys; sys.path.insert(0, {workers!r}); sys.argv = ['', {model!r}, {sentences!r}]; "
    "sys.stdin = open('/dev/null'); import allennlp_worker as w; w.embed(1, 1)"
)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    work: str
    ours: str
    allennlp: str
    ratio: float
    is_speed: bool = False  # drawn as a bar


class Worker:
    """A process that runs a job when told to."""

    def __init__(self, python: Path | str, script: str, *arguments: Path | str) -> None:
        self._process = subprocess.Popen(
            [str(python), str(HERE / "workers" / script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, job: str, **settings: Setting) -> dict[str, Any]:
        """Run one job and give what it measured."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"job": job, **settings}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended in job {job}; its message is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def best_in_turns(jobs: dict[str, Callable[[], dict[str, Any]]], n_rounds: int) -> dict[str, float]:
    """The best seconds of each job, run in turns."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(n_rounds):
        for name, job in jobs.items():
            best[name] = min(best[name], job()["seconds"])
    return best


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=TEXT, help="raw text, plain, .gz or .xz")
    parser.add_argument("--peers", type=Path, default=Path.home() / ".cache" / "elmo-peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--quick", action="store_true", help="small model only, short streams")
    parser.add_argument("--share", action="store_true", help="only the share of the product")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), settings.text, settings.peers, settings.rounds)
        if settings.share:
            print_table([bench.share()], {})
            return
        n_stream = 2**14 if settings.quick else 2**20
        rows = bench.small(n_stream)
        if not settings.quick:
            rows += bench.original()
        rows.append(bench.first_vector())
        growth = bench.growth(n_stream)
    print_table(rows, growth)
    if settings.json:
        result = {"machine": machine(), "rows": [asdict(row) for row in rows], "growth": growth}
        settings.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if settings.plot:
        plot(rows, growth, settings.plot)


class Bench:
    """The models, the sentences and the measurements."""

    def __init__(self, folder: Path, text: Path, peers: Path, n_rounds: int) -> None:
        self.folder = folder
        self.n_rounds = n_rounds
        self.allennlp = peers / "allennlp" / "bin" / "python"
        blocks = islice(read_blocks([text]), 400)
        lines = itertools.chain.from_iterable(blocks)
        sentences = [each.tokens for line in lines for each in split_text(line)]
        # AllenNLP's reader splits on any space, so a token must have none.
        self.sentences = [s for s in sentences if all(len(word.split()) == 1 for word in s)]

    def small(self, n_stream: int) -> list[Row]:
        """The rows of the small model."""
        model = self.make_model("small")
        file, n_tokens = self.write("400.txt", self.sentences[:400])
        ours = Worker(sys.executable, "elmo_worker.py", model, file)
        theirs = Worker(self.allennlp, "allennlp_worker.py", model, file)
        self.compare_vectors(ours, theirs)
        jobs: dict[str, Callable[[], dict[str, Any]]] = {
            "cold": lambda: ours.run("embed", is_cold=True),
            "warm": lambda: ours.run("embed"),
        }
        for size in ALLENNLP_BATCHES:
            jobs[str(size)] = lambda size=size: theirs.run("embed", batch_size=size)  # type: ignore[misc]
        seconds = best_in_turns(jobs, self.n_rounds)
        peer = min(seconds[str(size)] for size in ALLENNLP_BATCHES)
        rows = [
            speed_row("small, 400 sentences, cold", n_tokens, seconds["cold"], peer),
            speed_row("small, 400 sentences, warm", n_tokens, seconds["warm"], peer),
        ]
        ours.close()
        theirs.close()
        return [*rows, self.singly(model), self.memory(model, n_stream)]

    def singly(self, model: Path) -> Row:
        """One sentence of about 25 words at a time."""
        chosen = [s for s in self.sentences if 23 <= len(s) <= 27][:40]
        file, n_tokens = self.write("25.txt", chosen)
        ours = Worker(sys.executable, "elmo_worker.py", model, file)
        theirs = Worker(self.allennlp, "allennlp_worker.py", model, file)
        seconds = best_in_turns(
            {
                "ours": lambda: ours.run("embed_singly"),
                "theirs": lambda: theirs.run("embed", batch_size=1),
            },
            self.n_rounds,
        )
        ours.close()
        theirs.close()
        work = "small, one sentence of 25 words at a time"
        return speed_row(work, n_tokens, seconds["ours"], seconds["theirs"])

    def memory(self, model: Path, n_tokens: int) -> Row:
        """Memory over the bare process while a stream of tokens is embedded."""
        file, _ = self.write("stream.txt", self.sentences)
        ours = Worker(sys.executable, "elmo_worker.py", model, file)
        measured = [size / 2**20 for size in ours.run("stream", n_tokens=n_tokens)["bytes"]]
        ours.close()
        after_warm_up = measured[len(measured) // 4 :]
        growth = after_warm_up[-1] / after_warm_up[0]
        return Row(
            f"small, peak memory of a stream of {n_tokens:,} tokens",
            f"{max(measured):.0f} MB, from a quarter on x{growth:.2f}",
            "-",
            max(measured),
        )

    def original(self) -> list[Row]:
        """The rows of the original model."""
        model = self.make_model("original")
        file, n_tokens = self.write("200.txt", self.sentences[:200])
        ours = Worker(sys.executable, "elmo_worker.py", model, file)
        theirs = Worker(self.allennlp, "allennlp_worker.py", model, file)
        seconds = best_in_turns(
            {
                "ours": lambda: ours.run("embed", is_cold=True),
                "32": lambda: theirs.run("embed", batch_size=32),
                "64": lambda: theirs.run("embed", batch_size=64),
            },
            max(2, self.n_rounds // 2),
        )
        theirs.close()
        ours.close()
        peer = min(seconds["32"], seconds["64"])
        work = "original, 200 sentences, cold"
        return [speed_row(work, n_tokens, seconds["ours"], peer), self.share()]

    def share(self) -> Row:
        """The operations that the LSTM layers do, a second, of what a large product does."""
        model = self.make_model("original")
        file, _ = self.write("share.txt", self.sentences[:200])
        ours = Worker(sys.executable, "elmo_worker.py", model, file)
        reached = peak = 0.0
        for _ in range(self.n_rounds):
            peak = max(peak, ours.run("multiply")["flops"])
            reached = max(reached, ours.run("recur", n_rows=96)["flops"])
        ours.close()
        return Row(
            "original, batch of 96: LSTM operations done, share of torch's best product",
            f"{reached / 1e9:.0f} GFLOP/s",
            f"(product {peak / 1e9:.0f} GFLOP/s)",
            reached / peak,
        )

    def first_vector(self) -> Row:
        """From a bare interpreter to the first vector, files in the page cache."""
        model = self.folder / "small"
        file, _ = self.write("first.txt", [["I", "took", "a", "bow", "."]])
        ours = IMPORT_OURS.format(model=str(model))
        theirs = IMPORT_ALLENNLP.format(
            workers=str(HERE / "workers"), model=str(model), sentences=str(file)
        )
        seconds = best_in_turns(
            {
                "ours": lambda: run_python(sys.executable, ours),
                "theirs": lambda: run_python(self.allennlp, theirs),
            },
            max(3, self.n_rounds // 2),
        )
        return Row(
            "small, from import to the first vector",
            f"{seconds['ours']:.2f} s",
            f"{seconds['theirs']:.2f} s",
            seconds["ours"] / seconds["theirs"],
        )

    def growth(self, most: int) -> dict[str, list[tuple[int, float]]]:
        """Microseconds a token against corpus size, and against the length of a sentence."""
        model = self.folder / "small"
        file, _ = self.write("growth.txt", self.sentences)
        ours = Worker(sys.executable, "elmo_worker.py", model, file)
        ours.run("stream", n_tokens=100_000)  # every word is remembered from here on
        sizes = [2**k for k in range(10, most.bit_length())]
        by_size = [(n, per_token(ours.run("stream", n_tokens=n), n)) for n in sizes]
        ours.close()
        by_length = []
        words = [word for sentence in self.sentences for word in sentence][:16384]
        for length in (8, 16, 32, 64, 128, 256, 512, 1024):
            cut = [words[k : k + length] for k in range(0, len(words), length)]
            file, n_tokens = self.write(f"length-{length}.txt", cut)
            ours = Worker(sys.executable, "elmo_worker.py", model, file)
            ours.run("embed")
            best = min(ours.run("embed")["seconds"] for _ in range(3))
            by_length.append((length, 1e6 * best / n_tokens))
            ours.close()
        return {"by corpus size": by_size, "by sentence length": by_length}

    def make_model(self, size: str) -> Path:
        """Random weights of a released size in the official layout."""
        folder = self.folder / size
        if folder.exists():
            return folder
        folder.mkdir()
        torch.manual_seed(1)
        formats.write_official(folder / "weights.hdf5", Model(BiLM(config.preset(size))))
        return folder

    def write(self, name: str, sentences: list[list[str]]) -> tuple[Path, int]:
        """Sentences as a file of lines, and how many tokens they have."""
        path = self.folder / name
        path.write_text("".join(" ".join(s) + "\n" for s in sentences), encoding="utf-8")
        return path, sum(map(len, sentences))

    def compare_vectors(self, ours: Worker, theirs: Worker) -> None:
        """A speed is worth nothing with other numbers."""
        one, other = self.folder / "ours.npz", self.folder / "theirs.npz"
        ours.run("embed", n_sentences=50, out=str(one))
        theirs.run("embed", batch_size=10, n_sentences=50, out=str(other))
        a, b = np.load(one), np.load(other)
        difference = max(float(np.abs(a[name] - b[name]).max()) for name in a.files)
        print(f"largest difference of the vectors: {difference:.1e}", file=sys.stderr)
        if difference > 1e-5:
            raise SystemExit("the vectors differ by more than 1e-5; the times mean nothing")


def per_token(answer: dict[str, Any], n_tokens: int) -> float:
    """Microseconds."""
    return 1e6 * float(answer["seconds"]) / n_tokens


def run_python(python: Path | str, program: str) -> dict[str, Any]:
    """The seconds of a whole process."""
    timed = f"import time; t = time.perf_counter(); exec({program!r}); print(time.perf_counter()-t)"
    done = subprocess.run([str(python), "-c", timed], capture_output=True, text=True, check=True)
    return {"seconds": float(done.stdout.split()[-1])}


def speed_row(work: str, n_tokens: int, ours: float, theirs: float) -> Row:
    """Two times as tokens per second and their ratio."""
    speeds = f"{n_tokens / ours:,.0f} tokens/s", f"{n_tokens / theirs:,.0f} tokens/s"
    return Row(work, *speeds, theirs / ours, is_speed=True)


def machine() -> str:
    """What this was measured on."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((x.split(": ")[1] for x in lines if x.startswith("model name")), model)
    return f"{os.cpu_count()} x {model}, torch {torch.__version__}, Python {sys.version.split()[0]}"


def print_table(rows: list[Row], growth: dict[str, list[tuple[int, float]]]) -> None:
    """Print Markdown for docs/benchmarks.md."""
    print(f"\n{machine()}\n\n| work | ours | AllenNLP 2.10.1 | ratio |")
    print("|---|---|---|---|")
    for row in rows:
        print(f"| {row.work} | {row.ours} | {row.allennlp} | {row.ratio:.2f} |")
    for name, points in growth.items():
        print(f"\n| {name} | " + " | ".join(f"{n:,}" for n, _ in points) + " |")
        print("|---" * (len(points) + 1) + "|")
        print("| microseconds a token | " + " | ".join(f"{t:.0f}" for _, t in points) + " |")


def plot(rows: list[Row], growth: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """Speed over AllenNLP as bars, cost per token as lines."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2))
    speeds = [row for row in rows if row.is_speed]
    left.barh([row.work for row in speeds], [row.ratio for row in speeds], color="#4c72b0")
    left.invert_yaxis()
    left.set_xlabel("times as fast as AllenNLP 2.10.1")
    for name, points in growth.items():
        right.plot([n for n, _ in points], [t for _, t in points], marker="o", label=name)
    right.set(xscale="log", ylim=(0, None), xlabel="tokens", ylabel="microseconds a token")
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
