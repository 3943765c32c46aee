"""Speed, memory and startup time of embedding, next to AllenNLP in the same run: `make bench`.

Both read the same random weights of a released size and the same real sentences, in turns. AllenNLP
is measured as its users call it (sentences in the given order, batches of 64) and at its best
(sorted by length, the best of several batch sizes, and its cache of words where ours is warm).
Every round is stored, section by section; `--only` measures some sections again.
usage: python -m benchmarks.embed [--only SECTION ...] [--rounds N] [--text FILE] [--json FILE]
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measured import PEERS, ROOT, Worker, conditions, in_turns, store, version_in
from elmo.files.text_files import read_blocks
from elmo.models import formats
from elmo.models.model_folder import Model
from elmo.network import config
from elmo.network.bilm import BiLM
from elmo.text.tokenizer import split_text

TEXT = ROOT.parent / "shared" / "data" / "wiki" / "heldout.txt.xz"
USUAL_BATCH = 64  # the default of AllenNLP's ElmoEmbedder
BATCHES = (1, 4, 16, 32, 64)
IMPORT_OURS = (
    "from elmo import Elmo; Elmo.load({model!r}).embed_tokens(['I', 'took', 'a', 'bow', '.'])"
)
IMPORT_ALLENNLP = (
    "import sys; sys.path.insert(0, {workers!r}); sys.argv = ['', {model!r}, {sentences!r}]; "
    "sys.stdin = open('/dev/null'); import allennlp_worker as w; w.embed(1, 1)"
)
Section = dict[str, Any]


class Bench:
    """The models, the sentences and the measurements, with one method per section."""

    def __init__(self, folder: Path, text: Path, peers: Path, n_rounds: int) -> None:
        self.folder = folder
        self.n_rounds = n_rounds
        self.allennlp = peers / "allennlp" / "bin" / "python"
        blocks = islice(read_blocks([text]), 400)
        lines = itertools.chain.from_iterable(blocks)
        sentences = [each.tokens for line in lines for each in split_text(line)]
        # AllenNLP's reader splits on any whitespace, so a token must have none.
        self.sentences = [s for s in sentences if all(len(word.split()) == 1 for word in s)]

    def small(self) -> Section:
        """The small model: new words, and words seen before."""
        file, n_tokens = self.write("small.txt", self.sentences[:200])
        with self.ours("small", file) as ours, self.theirs("small", file) as theirs:
            self.compare_vectors(ours, theirs)
            tried, batch = best_batch(theirs, BATCHES)
            theirs.run("embed", batch_size=batch, is_cached=True)  # fills its cache
            jobs = {
                "ours, new words": partial(ours.seconds, "embed", is_cold=True),
                "ours, known words": partial(ours.seconds, "embed"),
                "as used": partial(theirs.seconds, "embed", batch_size=USUAL_BATCH),
                "at best": partial(theirs.seconds, "embed", batch_size=batch, is_sorted=True),
                "at best, known words": partial(
                    theirs.seconds, "embed", batch_size=batch, is_sorted=True, is_cached=True
                ),
            }
            seconds = in_turns(jobs, self.n_rounds)
        return {
            "n_sentences": 200,
            "n_tokens": n_tokens,
            "n_words": len({word for words in self.sentences[:200] for word in words}),
            "batch_at_best": batch,
            "tried": tried,
            "seconds": seconds,
        }

    def single(self) -> Section:
        """The small model, one sentence of about 25 words at a time."""
        chosen = [s for s in self.sentences if 23 <= len(s) <= 27][:40]
        file, n_tokens = self.write("single.txt", chosen)
        with self.ours("small", file) as ours, self.theirs("small", file) as theirs:
            ours.run("embed_singly")
            theirs.run("embed", batch_size=1, is_cached=True)
            jobs = {
                "ours, new words": partial(ours.seconds, "embed_singly", is_cold=True),
                "ours, known words": partial(ours.seconds, "embed_singly"),
                "as used": partial(theirs.seconds, "embed", batch_size=1),
                "at best, known words": partial(
                    theirs.seconds, "embed", batch_size=1, is_cached=True
                ),
            }
            seconds = in_turns(jobs, self.n_rounds)
        return {"n_sentences": len(chosen), "n_tokens": n_tokens, "seconds": seconds}

    def original(self) -> Section:
        """The original model, new words."""
        file, n_tokens = self.write("original.txt", self.sentences[:60])
        with self.ours("original", file) as ours, self.theirs("original", file) as theirs:
            tried, batch = best_batch(theirs, (16, 32, 64))
            jobs = {
                "ours, new words": partial(ours.seconds, "embed", is_cold=True),
                "as used": partial(theirs.seconds, "embed", batch_size=USUAL_BATCH),
                "at best": partial(theirs.seconds, "embed", batch_size=batch, is_sorted=True),
            }
            seconds = in_turns(jobs, self.n_rounds)
        return {
            "n_sentences": 60,
            "n_tokens": n_tokens,
            "batch_at_best": batch,
            "tried": tried,
            "seconds": seconds,
        }

    def product(self) -> Section:
        """FLOP/s of the LSTM layers of the original model, and of a large matrix product."""
        file, _ = self.write("product.txt", self.sentences[:200])
        with self.ours("original", file) as ours:
            jobs = {
                "product": lambda: float(ours.run("multiply")["flops"]),
                "layers": lambda: float(ours.run("recur", n_rows=96)["flops"]),
            }
            return {"flops": in_turns(jobs, self.n_rounds)}

    def start(self) -> Section:
        """Time from a bare interpreter to the first vector, with files in the page cache."""
        model = self.make_model("small")
        file, _ = self.write("start.txt", [["I", "took", "a", "bow"]])
        ours = IMPORT_OURS.format(model=str(model))
        theirs = IMPORT_ALLENNLP.format(
            workers=str(ROOT / "benchmarks" / "workers"), model=str(model), sentences=str(file)
        )
        jobs = {
            "ours": partial(seconds_of, sys.executable, ours),
            "as used": partial(seconds_of, self.allennlp, theirs),
        }
        return {"seconds": in_turns(jobs, self.n_rounds)}

    def memory(self) -> Section:
        """Memory above the bare process while a stream of tokens is embedded, and its time."""
        n_tokens = 2**20
        file, _ = self.write("stream.txt", self.sentences)
        with self.ours("small", file) as ours:
            answer = ours.run("stream", n_tokens=n_tokens)
        megabytes = [round(size / 2**20, 1) for size in answer["bytes"]]
        return {
            "n_tokens": n_tokens,
            "seconds": round(answer["seconds"], 2),
            "megabytes": megabytes,
            "peak_megabytes": round(answer["peak"] / 2**20, 1),
        }

    def growth(self) -> Section:
        """Microseconds per token by corpus size, and by sentence length."""
        file, _ = self.write("growth.txt", self.sentences)
        by_size, by_length = {}, {}
        with self.ours("small", file) as ours:
            ours.run("stream", n_tokens=100_000)  # every word is known from here on
            for n in (2**k for k in range(10, 19, 2)):
                by_size[str(n)] = round(1e6 * ours.seconds("stream", n_tokens=n) / n, 1)
        words = [word for sentence in self.sentences for word in sentence][:16384]
        for length in (8, 32, 128, 512, 2048):
            cut = [words[k : k + length] for k in range(0, len(words), length)]
            file, n_tokens = self.write(f"length-{length}.txt", cut)
            with self.ours("small", file) as ours:
                best = min(ours.seconds("embed") for _ in range(4))
            by_length[str(length)] = round(1e6 * best / n_tokens, 1)
        return {"by corpus size": by_size, "by sentence length": by_length}

    def cost(self) -> Section:
        """Time and memory of three models on one and two threads."""
        found: Section = {}
        for size, n_sentences in (("small", 200), ("english", 200), ("original", 60)):
            file, n_tokens = self.write("cost.txt", self.sentences[:n_sentences])
            for threads in (1, 2):
                environment = {"OMP_NUM_THREADS": str(threads)}
                with self.ours(size, file, environment) as ours:
                    jobs = {
                        "new words": partial(ours.seconds, "embed", is_cold=True),
                        "known words": partial(ours.seconds, "embed"),
                    }
                    ours.run("embed")
                    seconds = in_turns(jobs, self.n_rounds)
                    megabytes = round(ours.run("weigh")["bytes"] / 2**20, 1)
                found[f"{size}, {threads}"] = {
                    "n_tokens": n_tokens,
                    "seconds": seconds,
                    "megabytes": megabytes,
                }
        return found

    def bfloat16(self) -> Section:
        """The same models in float32 and bfloat16, in turns."""
        found: Section = {}
        for size, n_sentences in (("small", 400), ("original", 100)):
            file, n_tokens = self.write("bfloat16.txt", self.sentences[:n_sentences])
            with self.ours(size, file) as full, self.ours(size, file, dtype="bfloat16") as half:
                jobs = {}
                for dtype, ours in (("float32", full), ("bfloat16", half)):
                    ours.run("embed")
                    jobs[f"{dtype}, new words"] = partial(ours.seconds, "embed", is_cold=True)
                    jobs[f"{dtype}, known words"] = partial(ours.seconds, "embed")
                seconds = in_turns(jobs, self.n_rounds)
            found[size] = {"n_tokens": n_tokens, "seconds": seconds}
        return found

    def ours(
        self,
        size: str,
        file: Path,
        environment: dict[str, str] | None = None,
        dtype: str = "float32",
    ) -> Worker:
        """A worker of this package, with a model of this size."""
        model = size if size == "english" else self.make_model(size)
        return Worker(sys.executable, "elmo_worker.py", model, file, dtype, environment=environment)

    def theirs(self, size: str, file: Path) -> Worker:
        """A worker of AllenNLP, with the same model."""
        return Worker(self.allennlp, "allennlp_worker.py", self.make_model(size), file)

    def make_model(self, size: str) -> Path:
        """The folder of random weights of a released size in the official format, written once."""
        folder = self.folder / size
        if not folder.exists():
            folder.mkdir()
            torch.manual_seed(1)
            formats.write_official(folder / "weights.hdf5", Model(BiLM(config.preset(size))))
        return folder

    def write(self, name: str, sentences: list[list[str]]) -> tuple[Path, int]:
        """Write sentences to a file, one per line; return its path and the number of tokens."""
        path = self.folder / name
        path.write_text("".join(" ".join(s) + "\n" for s in sentences), encoding="utf-8")
        return path, sum(map(len, sentences))

    def compare_vectors(self, ours: Worker, theirs: Worker) -> None:
        """Exit if the vectors differ, as the speeds would not be comparable."""
        settings: list[dict[str, int | bool]] = [
            {"batch_size": 10},
            {"batch_size": 10, "is_sorted": True, "is_cached": True},
        ]
        one, other = self.folder / "ours.npz", self.folder / "theirs.npz"
        ours.run("embed", n_sentences=50, out=str(one))
        for each in settings:
            theirs.run("embed", n_sentences=50, out=str(other), **each)
            a, b = np.load(one), np.load(other)
            difference = max(float(np.abs(a[name] - b[name]).max()) for name in a.files)
            if difference > 1e-5:
                raise SystemExit(f"the vectors differ by {difference}; the times mean nothing")


def best_batch(theirs: Worker, sizes: tuple[int, ...]) -> tuple[dict[str, float], int]:
    """Seconds of each batch size with sentences sorted by length, and the fastest size."""
    theirs.run("embed", batch_size=16, n_sentences=16)
    tried = {
        size: round(theirs.seconds("embed", batch_size=size, is_sorted=True), 3) for size in sizes
    }
    return {str(size): seconds for size, seconds in tried.items()}, min(
        tried, key=tried.__getitem__
    )


def seconds_of(python: Path | str, program: str) -> float:
    """Seconds that a program takes in a new process, without the interpreter's startup."""
    timed = f"import time; t = time.perf_counter(); exec({program!r}); print(time.perf_counter()-t)"
    done = subprocess.run([str(python), "-c", timed], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


SECTIONS = (
    "small",
    "single",
    "original",
    "product",
    "start",
    "memory",
    "growth",
    "cost",
    "bfloat16",
)


def main() -> None:
    """Measure section after section and store each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--text", type=Path, default=TEXT, help="raw text, plain, .gz or .xz")
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), settings.text, settings.peers, settings.rounds)
        versions = {
            "allennlp": version_in(bench.allennlp, "allennlp"),
            "torch of allennlp": version_in(bench.allennlp, "torch"),
        }
        for name in settings.only:
            before = conditions(**versions)
            section = getattr(bench, name)()
            store(settings.json, name, {"environment": before, **section})


if __name__ == "__main__":
    main()
