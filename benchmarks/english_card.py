"""Measure the English model for its card: perplexity, probes, demo, sizes and the time to open it.

    python -m benchmarks.english_card MODEL DATA --json docs/models/english/card.json [NAME...]

In: a model folder and the folder of texts and task data that docs/data.md describes. Out: a JSON
file with the results. Measurements of the same model that the file already has are skipped.
"""

import argparse
import json
import runpy
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.environment import describe_environment
from elmo import Elmo
from elmo.files.atomic import write_json

TEXTS = ("wiki", "books", "textbooks")
N_STARTS = 5
START = """\
import time, torch
start = time.perf_counter()
from elmo import Elmo
Elmo.load({model!r}).embed("I took a bow.")
print(time.perf_counter() - start)
"""


def main() -> None:
    """Run the measurements that the file does not have yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("names", nargs="*", help="measurements; all by default")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_intermixed_args()
    info = run_elmo("info", options.model)
    del info["path"]  # specific to this machine
    card: dict[str, Any] = {}
    if options.json.exists():
        card = json.loads(options.json.read_text())
    if card.get("info", {}).get("sha256") != info["sha256"]:
        card = {"info": info}
    measurements = all_measurements(options.model, options.data)
    for name in options.names or measurements:
        if name not in card:
            card[name] = {**measurements[name](), "environment": describe_environment()}
            write_json(options.json, card)
            print(f"{name}: done", flush=True)


def all_measurements(model: str, data: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """The functions that run the measurements, by name."""
    ewt, glove = data / "pos/ud-ewt", data / "glove/glove.6B.100d.trimmed.txt.xz"
    trees = ("--train", f"{ewt}/train.conllu.xz", "--test", f"{ewt}/test.conllu.xz")
    senses = ("--semcor", f"{data}/wsd/semcor.jsonl.xz", "--sets", f"{data}/research-only/wsd-eval")
    probes = {
        "pos": (*trees, "--glove", str(glove)),
        "structure": trees,
        "wsd": senses,
        "senses": (),
        "oov": ("--glove", str(glove)),
    }
    commands = {
        **{
            f"perplexity/{text}": ("evaluate", model, f"{data}/{text}/heldout.txt.xz")
            for text in TEXTS
        },
        **{f"probe/{name}": ("probe", name, *rest, "-m", model) for name, rest in probes.items()},
    }
    return {
        "open": lambda: seconds_to_open(model),
        "bows": lambda: count_bows(model),
        **{name: lambda words=words: run_elmo(*words) for name, words in commands.items()},
    }


def run_elmo(*words: str) -> dict[str, Any]:
    """Run `elmo ... --json` and parse its output."""
    command = (sys.executable, "-m", "elmo", *words, "--json")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def seconds_to_open(model: str) -> dict[str, Any]:
    """Seconds from after the import of torch to the first vector, each in a new process."""
    command = (sys.executable, "-c", START.format(model=model))
    seconds = [float(subprocess.check_output(command)) for _ in range(N_STARTS)]
    return {"seconds": seconds, "median": statistics.median(seconds)}


def count_bows(model: str) -> dict[str, Any]:
    """How many of the demo's sentences have a nearest neighbor of the same sense, by layer."""
    demo = runpy.run_path("examples/bow.py")
    texts = [(sense, text) for sense, texts in demo["SENTENCES"].items() for text in texts]
    elmo = Elmo.load(model)
    embedded = elmo.embed([text for _, text in texts])
    senses = [sense for sense, _ in texts]
    nearest = [demo["find_nearest"](embedded, layer)[1] for layer in range(elmo.n_layers)]
    return {"layers": [demo["count_same"](senses, each) for each in nearest]}


if __name__ == "__main__":
    main()
