"""Damage files of every format and open them: each must be accepted or refused with an `ElmoError`.

    python -m tools.fuzz --seconds 300 --seed 7

A case is a copy of a small valid input in which one file is damaged: bits are flipped, bytes are
removed, overwritten or inserted, or a number becomes extreme. It is opened in a process of its own,
with a time limit; a traceback, a crash, a hang or more than a gigabyte of memory is a finding, and
its files are kept. A case depends only on the seed and its number.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from elmo.api import Elmo
from elmo.errors import ElmoError
from elmo.files.tables import Fields, read_records
from elmo.files.text_files import read_lines
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head
from elmo.search.build import build_index
from elmo.search.index import WordIndex
from elmo.tasks import find_task
from elmo.text.vocabulary import Vocabulary
from elmo.training.checkpoint import TrainingCheckpoint, load_newest, save_checkpoint
from elmo.vectors.embed import embed_file
from elmo.vectors.static import StaticVectors
from tests.conftest import CORPUS, TINY_OPTIONS
from tests.models.formats.many_langs_models import write_model
from tests.models.formats.released_layouts import pack, write_allennlp, write_tf_hub
from tests.models.formats.test_token_cache import write_cache
from tests.random_models import build_bilm, random_weights, write_files
from tests.tasks.tiny_tasks import TINY_TASKS

CASE_SECONDS = 20
MAX_BYTES = 2**30
ACCEPTED, REFUSED, TRACEBACK = 0, 3, 4
SENTENCE = ["I", "took", "a", "bow", "."]
EXTREME = [b"0", b"-1", b"1e400", b"1000000000000000000", b"1" + b"0" * 400, b"NaN", b"[" * 5000]

Opener = Callable[[Path], object]


def write_inputs(folder: Path) -> dict[str, Opener]:
    """Write a valid input of each format to a folder of its name; return the openers by format."""
    weights = random_weights(TINY_OPTIONS, seed=1)
    bilm = build_bilm(TINY_OPTIONS, weights)
    vocabulary = Vocabulary.of_words(sorted(set(CORPUS.split())))
    head = build_head("full", len(vocabulary), 8)
    write_files(folder / "official", TINY_OPTIONS, weights)
    model_folder.save(folder / "folder", Model(bilm, head, vocabulary))
    write_model(folder / "many-langs")
    write_tf_hub(folder / "tf-hub", weights)
    write_allennlp(folder / "allennlp", weights)
    table = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    write_cache(folder / "token-cache", ["bow", "the", "on"], table)
    for ending in (".zip", ".tar", ".tar.gz"):
        (folder / ending).mkdir()
        pack(folder / "official", folder / ending / f"model{ending}")
    openers: dict[str, Opener] = {name.name: open_model for name in folder.iterdir()}
    build_index(Elmo(Model(bilm)), [line.split() for line in CORPUS.splitlines()], folder / "index")
    openers["index"] = lambda path: search(path, Elmo(Model(bilm)))
    numbers = {"history": [], "seconds": 1.5}
    checkpoint = TrainingCheckpoint(3, dict(bilm.state_dict()), numbers)
    save_checkpoint(folder / "checkpoint", checkpoint)
    openers["checkpoint"] = load_newest
    return openers | write_texts(folder, Elmo(Model(bilm)))


def write_texts(folder: Path, elmo: Elmo) -> dict[str, Opener]:
    """Write inputs that are one file of text or data; return their openers by format."""
    import gzip
    import lzma

    vectors = "bow 0.5 1 -2\nthe 1 2 3\n"
    texts: dict[str, tuple[str, bytes, Opener]] = {
        "text": ("a.txt", CORPUS.encode(), lambda path: list(read_lines(path))),
        "gzip": ("a.txt.gz", gzip.compress(CORPUS.encode()), lambda path: list(read_lines(path))),
        "xz": ("a.txt.xz", lzma.compress(CORPUS.encode()), lambda path: list(read_lines(path))),
        "fasta": ("a.fasta", b">1 x\nMKV\nLL\n>2\nMA\n", lambda path: list(read_lines(path))),
        "csv": (
            "a.csv",
            b'text,n\n"a, b",1\nc,2\n',
            lambda path: list(read_records(path, Fields())),
        ),
        "glove": ("a.vec", vectors.encode(), StaticVectors.read),
    }
    for task in TINY_TASKS:
        found = find_task(task.name)
        read = lambda path, found=found: found.read(path, found.defaults(), is_training=True)  # noqa: E731
        texts[f"data-{task.name}"] = (task.file_name, task.content.encode(), read)
    openers: dict[str, Opener] = {}
    for name, (file_name, content, read) in texts.items():
        (folder / name).mkdir()
        (folder / name / file_name).write_bytes(content)
        openers[name] = lambda path, name=file_name, read=read: read(path / name)  # type: ignore[misc]
    (folder / "parquet").mkdir()
    elmo.save(folder / "parquet" / "model")
    embed_file(
        folder / "text" / "a.txt", folder / "parquet" / "a.parquet", folder / "parquet" / "model"
    )
    shutil.rmtree(folder / "parquet" / "model")
    openers["parquet"] = lambda path: read_parquet(path / "a.parquet", folder / "folder")
    return openers


def open_model(path: Path) -> None:
    """Open a model and embed a sentence."""
    archives = [file for file in path.iterdir() if file.name.startswith("model.")]
    is_archive = len(archives) == 1 and archives[0].suffix in (".zip", ".tar", ".gz")
    Elmo.load(archives[0] if is_archive else path).embed_tokens([SENTENCE])


def search(path: Path, elmo: Elmo) -> None:
    """Open an index and search it."""
    index = WordIndex(path, elmo)
    index.nearest(elmo.embed_tokens([SENTENCE])[0].layers[:, 3], 3)
    index.similar_words(np.ones(8, np.float32), 3)


def read_parquet(path: Path, model: Path) -> None:
    """Embed the text column of a table."""
    embed_file(path, path.with_name("out.npz"), model, column="token")


def damage(content: bytes, draw: random.Random) -> bytes:
    """Damage the bytes of a file at random."""
    some = bytearray(content)
    how = draw.choice(["flip", "flip", "cut", "zero", "noise", "insert", "number", "empty"])
    place = draw.randrange(len(some) + 1)
    length = draw.choice([1, 4, 16, 200])
    if how == "flip" and some:
        for _ in range(draw.choice([1, 1, 3, 20])):
            some[draw.randrange(len(some))] ^= 1 << draw.randrange(8)
    elif how == "cut":
        del some[place : draw.choice([len(some), place + length])]
    elif how == "zero":
        some[place : place + length] = bytes(length)
    elif how == "noise":
        some[place : place + length] = (
            b"\xff" * length if draw.random() < 0.3 else draw.randbytes(length)
        )
    elif how == "insert":
        some[place:place] = draw.randbytes(length)
    elif how == "empty":
        some.clear()
    elif found := list(re.finditer(rb"-?\d+(\.\d+)?", bytes(some[:100_000]))):
        number = draw.choice(found)
        some[number.start() : number.end()] = draw.choice(EXTREME)
    return bytes(some)


def make_case(source: Path, case: Path, draw: random.Random) -> str:
    """Copy an input and damage one of its files; return the name of the file."""
    shutil.copytree(source, case)
    files = sorted(path for path in case.rglob("*") if path.is_file())
    victim = draw.choice(files)
    victim.write_bytes(damage(victim.read_bytes(), draw))
    return str(victim.relative_to(case))


def run_case(open_input: Opener, case: Path, log: Path) -> str:
    """Open an input in a process of its own; return accepted, refused, or what went wrong."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CASE_SECONDS)
        code = TRACEBACK
        try:
            with log.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            open_input(case)
            code = ACCEPTED
        except ElmoError:
            code = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if used.ru_maxrss * 1024 > MAX_BYTES + memory_of_parent():
        return "memory"
    if code == -signal.SIGALRM:
        return "hang"
    names = {ACCEPTED: "accepted", REFUSED: "refused", TRACEBACK: "traceback"}
    return names.get(code, "crash")


def memory_of_parent() -> int:
    """The memory that a child starts with."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def fuzz(seed: int, seconds: float, n_cases: int | None, kept: Path) -> dict[str, Counter[str]]:
    """Open damaged inputs, each format in turn, until the time or the number of cases is over."""
    counts: dict[str, Counter[str]] = {}
    ends_at = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "inputs").mkdir()
        openers = write_inputs(folder / "inputs")
        for format_name, open_input in openers.items():
            outcome = run_case(open_input, folder / "inputs" / format_name, folder / "log")
            assert outcome == "accepted", (format_name, (folder / "log").read_text())
        number = 0
        while time.monotonic() < ends_at and (n_cases is None or number < n_cases):
            format_name = list(openers)[number % len(openers)]
            case = folder / "case"
            victim = make_case(
                folder / "inputs" / format_name, case, random.Random(f"{seed} {number}")
            )
            outcome = run_case(openers[format_name], case, folder / "log")
            counts.setdefault(format_name, Counter())[outcome] += 1
            if outcome not in ("accepted", "refused"):
                found = kept / f"{format_name}-{seed}-{number}"
                shutil.rmtree(found, ignore_errors=True)
                shutil.copytree(case, found / "case")
                shutil.copy(folder / "log", found / "log")
                sys.stderr.write(f"{outcome}: {format_name}, case {number}, {victim}: {found}\n")
            shutil.rmtree(case)
            number += 1
    return counts


def main() -> None:
    """Run, write the counts as JSON, and exit with 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--cases", type=int, help="at most so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="for findings")
    parser.add_argument("--json", type=Path, help="file for the counts")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts = fuzz(settings.seed, settings.seconds, settings.cases, settings.keep)
    text = json.dumps(counts, indent=1)
    if settings.json:
        settings.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")
    outcomes = {outcome for count in counts.values() for outcome in count}
    sys.exit(bool(outcomes - {"accepted", "refused"}))


if __name__ == "__main__":
    main()
