"""Write stored results into the pages: `python -m benchmarks.tables`, at the end of `make bench`.

A page holds blocks `<!-- measured: NAME -->...<!-- end -->`. The text of each block is made here
from docs/benchmarks/*.json, so that no number is typed by hand; tests/docs/test_measured.py
compares.
"""

import re
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measured import RESULTS, ROOT, Rate, load

PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("benchmarks", "decisions", "pretraining")),
)
BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->)(.*?)(<!-- end -->)", re.DOTALL)
BLOCKS: dict[str, Callable[[], str]] = {}


def block(function: Callable[[], str]) -> Callable[[], str]:
    """Register the text of a block under the function's name."""
    BLOCKS[function.__name__.replace("_", "-")] = function
    return function


def fill(text: str) -> str:
    """A page with the text of every block made anew; a table stands on lines of its own."""

    def make(match: re.Match[str]) -> str:
        made = BLOCKS[match[2]]()
        separator = "\n" if made.startswith("|") or "\n" in made else ""
        return f"{match[1]}{separator}{made}{separator}{match[4]}"

    return BLOCK.sub(make, text)


def table(*rows: list[str]) -> str:
    """Markdown; the first row is the header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _embed(section: str) -> dict[str, Any]:
    found: dict[str, Any] = load(RESULTS / "embed.json")[section]
    return found


def _rate(section: dict[str, Any], job: str) -> Rate:
    return Rate(section["n_tokens"], section["seconds"][job])


def _both(rate: Rate) -> str:
    return f"{rate.median:,.0f} ({rate.best:,.0f})"


def _describe(conditions: dict[str, Any]) -> str:
    load_average = conditions["load"][0]
    is_busy = load_average > conditions["n_cores"] / 2
    return (
        f"{conditions['n_cores']} cores of {conditions['cpu']}, {conditions['threads']} threads, "
        f"torch {conditions['torch']}, Python {conditions['python']}, kernels: "
        f"{conditions['kernels']}; {conditions['date']}, commit {conditions['commit']}, "
        f"load average {load_average} at the start"
        + (" (**other work ran beside it: wall-clock times and ratios are rough**)" * is_busy)
    )


# Each row: what is done, the section, our job, AllenNLP's as used and at its best.
SPEEDS = (
    ("small, new words", "small", "ours, new words", "as used", "at best"),
    ("small, known words", "small", "ours, known words", "as used", "at best, known words"),
    (
        "small, a sentence of 25 words at a time, new words",
        "single",
        "ours, new words",
        "as used",
        "as used",
    ),
    (
        "small, a sentence of 25 words at a time, known words",
        "single",
        "ours, known words",
        "as used",
        "at best, known words",
    ),
    ("original, new words", "original", "ours, new words", "as used", "at best"),
)


@block
def conditions() -> str:
    """What the embedding was measured on."""
    return _describe(_embed("small")["environment"])


@block
def speed() -> str:
    """Tokens per second beside AllenNLP."""
    header = ["tokens/s, median (best)", "this package", "AllenNLP as used", "ratio"]
    rows = [[*header, "AllenNLP at its best", "ratio"]]
    for work, name, ours, used, best in SPEEDS:
        section = _embed(name)
        mine, theirs, at_best = (_rate(section, job) for job in (ours, used, best))
        rows.append(
            [
                work,
                _both(mine),
                _both(theirs),
                f"**{mine.median / theirs.median:.1f}x**",
                _both(at_best),
                f"**{mine.median / at_best.median:.1f}x**",
            ]
        )
    return table(*rows)


@block
def batches() -> str:
    """Which batch sizes of AllenNLP were tried."""
    tried = []
    for name in ("small", "original"):
        section = _embed(name)
        speeds = [
            f"{n}: {section['n_tokens'] / seconds:,.0f}" for n, seconds in section["tried"].items()
        ]
        tried.append(f"{name} {', '.join(speeds)} tokens/s")
    return "; ".join(tried)


@block
def sentences() -> str:
    """What was embedded."""
    small, single, original = (_embed(name) for name in ("small", "single", "original"))
    return (
        f"{small['n_sentences']} sentences ({small['n_tokens']:,} tokens, {small['n_words']:,} "
        f"distinct words) for the small model, {original['n_sentences']} for the original, "
        f"{single['n_sentences']} one at a time"
    )


@block
def product() -> str:
    """The share of the machine's limit."""
    section = _embed("product")
    flops = section["flops"]
    is_busy = section["environment"]["load"][0] > section["environment"]["n_cores"] / 2
    layers, limit = (max(flops[name]) / 1e9 for name in ("layers", "product"))
    return (
        f"The LSTM layers of the original model, in a batch of 96 sentences, do {layers:.0f} "
        f"GFLOP/s, {layers / limit:.0%} of PyTorch's largest product in the same run "
        f"({limit:.0f} GFLOP/s)."
        + " Other work disturbed both; the table of kernels below is by processor time."
        * is_busy
    )


@block
def start() -> str:
    """Load and first vector."""
    seconds = {name: Rate(1, each) for name, each in _embed("start")["seconds"].items()}
    ours, theirs = 1 / seconds["ours"].median, 1 / seconds["as used"].median
    return (
        f"From the import to the first vector of the small model: {ours:.1f} s, "
        f"AllenNLP {theirs:.1f} s (**{ours / theirs:.2f}x**)."
    )


@block
def memory() -> str:
    """A long stream."""
    section = _embed("memory")
    sizes = section["megabytes"]
    return (
        f"A stream of {section['n_tokens']:,} tokens through the small model takes "
        f"{section['peak_megabytes']:.0f} MB at most over the bare process "
        f"({sizes[len(sizes) // 4]:.0f} MB after a quarter, {sizes[-1]:.0f} MB at the end)."
    )


@block
def cost() -> str:
    """Three models on one and two threads."""
    rows = [["model", "threads", "tokens/s, new words", "known words", "memory, MB"]]
    for name, each in _embed("cost").items():
        if name == "environment":
            continue
        model, threads = name.split(", ")
        new, known = (_both(_rate(each, job)) for job in ("new words", "known words"))
        rows.append([model, threads, new, known, f"{each['megabytes']:.0f}"])
    return table(*rows)


@block
def growth() -> str:
    """Microseconds per token."""
    section = _embed("growth")
    tables = []
    for name, unit in (("by corpus size", "corpus"), ("by sentence length", "sentence")):
        points = section[name]
        header = [f"tokens in the {unit}", *(f"{int(n):,}" for n in points)]
        tables.append(table(header, ["microseconds", *(f"{t:.0f}" for t in points.values())]))
    return "\n\n".join(tables)


def _ratios() -> list[list[float]]:
    """Of each row, how many times as fast as AllenNLP as used and at its best, by medians."""
    found = []
    for _, name, ours, used, best in SPEEDS:
        section = _embed(name)
        mine = _rate(section, ours).median
        found.append([mine / _rate(section, job).median for job in (used, best)])
    return found


@block
def readme_speed() -> str:
    """One sentence."""
    new, known, *_, original = _ratios()
    n_cores = _embed("small")["environment"]["n_cores"]
    return (
        f"On {n_cores} cores {new[0]:.0f} times (new words) to {known[0]:.0f} times (cached "
        f"words) as fast as AllenNLP for the small model, {original[0]:.0f} times for the "
        f"original; {new[1]:.0f}, {known[1]:.0f} and {original[1]:.0f} times as fast as AllenNLP "
        f"at its best"
    )


def _train(section: str) -> dict[str, Any]:
    found: dict[str, Any] = load(RESULTS / "train.json")[section]
    return found


def _training_rates() -> dict[str, Rate]:
    """Tokens per second; the seconds of one token are what a rate is made of."""
    rates = _train("speed")["tokens_per_second"]
    return {name: Rate(1, [1 / rate for rate in each]) for name, each in rates.items()}


@block
def training() -> str:
    """Beside AI2's trainer."""
    rates = _training_rates()
    rows = [["", "tokens/s, median (best)", "ratio"]]
    ratio = rates["ours"].median / rates["bilm"].median
    rows.append(["this package", _both(rates["ours"]), f"**{ratio:.1f}x**"])
    rows.append(["bilm", _both(rates["bilm"]), ""])
    return table(*rows)


@block
def training_conditions() -> str:
    """What the training was measured on."""
    return _describe(_train("speed")["environment"])


@block
def training_parts() -> str:
    """Where a step's time goes."""
    speed, memory = _train("speed"), _train("memory")
    parts = ", ".join(f"{name} {s:.2f} s" for name, s in speed["seconds_by_part"].items())
    sizes = memory["megabytes"]
    return (
        f"Of our step's {speed['seconds_of_step']:.2f} s: {parts}; the rest is the backward pass "
        f"of LSTMs and characters. Peak memory of the process is {memory['peak_megabytes']:,} MB; "
        f"over {memory['n_tokens']:,} tokens it goes from {sizes[0]:,} to {sizes[-1]:,} MB."
    )


@block
def training_rate() -> str:
    """For the table of machines."""
    return f"{_training_rates()['ours'].median:,.0f}"


@block
def word_maps() -> str:
    """Neighbors on maps, for the decisions."""
    found = load(RESULTS / "word_maps.json")
    kept = ", ".join(
        f"{name} {each['trustworthiness']:.3f} ({each['seconds']:.0f} s)"
        for name, each in found["maps"].items()
    )
    return f"{found['rows']:,} words in context: {kept}"


@block
def scoring() -> str:
    """The kernel of the softmax against PyTorch."""
    sections = load(RESULTS / "score.json")
    ratios = {}
    for name in ("batches", "single"):
        seconds = sections[name]["seconds"]
        ratios[name] = median(seconds["blocks"]) / median(seconds["kernel"])
    batches = sections["batches"]
    rate = batches["n_tokens"] / median(batches["seconds"]["kernel"])
    return (
        f"The English model scores {rate:,.0f} tokens per second of processor time, "
        f"{ratios['batches']:.1f} times as many as with PyTorch's softmax, and "
        f"{ratios['single']:.1f} times one sentence at a time; log-probabilities differ by "
        f"{batches['largest_difference']:.0e} at most."
    )


def _kernels(section: str) -> dict[str, Any]:
    found: dict[str, Any] = load(RESULTS / "kernels.json")[section]
    return found


def _by_size(cells: dict[str, str]) -> str:
    """A table of cells named "size, rows": a line for each number of rows."""
    sizes = list(dict.fromkeys(name.split(", ")[0] for name in cells))
    n_rows = list(dict.fromkeys(name.split(", ")[1] for name in cells))
    return table(["rows", *sizes], *([n, *(cells[f"{s}, {n}"] for s in sizes)] for n in n_rows))


@block
def kernels_conditions() -> str:
    """What the kernels were measured on."""
    return _describe(_kernels("layers")["environment"])


@block
def kernels_layers() -> str:
    """One layer: GFLOP/s, share of the product, and against PyTorch."""
    cells = {
        name: f"{each['kernel']:.0f} GFLOP/s, {each['kernel'] / each['product']:.0%}, "
        f"{each['kernel'] / each['torch']:.1f}x"
        for name, each in _kernels("layers")["gflops"].items()
    }
    return _by_size(cells)


@block
def kernels_words() -> str:
    """Convolutions and highways."""
    rows = [["words", "convolutions, ms", "PyTorch's", "highway, ms", "PyTorch's"]]
    for n_words, each in _kernels("words")["milliseconds"].items():
        rows.append([n_words, *(f"{t:.1f}" for t in each.values())])
    return table(*rows)


@block
def builds() -> str:
    """A native build, the wheel's, none."""
    section = _kernels("builds")
    rows = [["kernels", "tokens per processor second, new words", "known words"]]
    for which, described in section["described"].items():
        rates = [
            _both(_rate(section, f"{which}, {words}")) for words in ("new words", "known words")
        ]
        rows.append([described.split(" (")[0], *rates])
    return table(*rows)


@block
def bfloat16_speed() -> str:
    """One layer against float32."""
    layers = _kernels("bfloat16")["layers"]
    return _by_size({name: f"{each['ratio']:.1f}x" for name, each in layers.items()})


@block
def bfloat16_error() -> str:
    """Vectors, perplexity and probes of the English model."""
    section = load(RESULTS / "bfloat16.json")["english"]
    rows = [["English model", "float32", "bfloat16"]]
    for layer, (mean, largest) in enumerate(
        zip(section["difference"]["mean"], section["difference"]["largest"], strict=True)
    ):
        name = f"relative difference of layer {layer}, mean (largest)"
        rows.append([name, "", f"{mean:.1e} ({largest:.1e})"])
    both = section["float32"], section["bfloat16"]
    for context in both[0]["perplexity"]:
        values = [f"{each['perplexity'][context]:.2f}" for each in both]
        rows.append([f"perplexity of words, {context}", *values])
    for probe, column in (("pos", "accuracy"), ("senses", "WordNet's examples")):
        for name in both[0][probe]["rows"]:
            if name.startswith("layer"):
                values = [f"{each[probe]['rows'][name][column]:.2f}" for each in both]
                rows.append([f"`elmo probe {probe}`, {name}, %", *values])
    return table(*rows)


def plot(path: Path) -> None:
    """Speed over AllenNLP as bars, time per token as lines."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2))
    names = [row[0] for row in SPEEDS]
    for shift, label, ratios in zip(
        (-0.2, 0.2), ("as used", "at its best"), zip(*_ratios(), strict=True), strict=True
    ):
        left.barh([k + shift for k in range(len(names))], ratios, 0.4, label=label)
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set_xlabel("times as fast as AllenNLP 2.10.1")
    left.legend()
    for name in ("by corpus size", "by sentence length"):
        points = _embed("growth")[name]
        right.plot([int(n) for n in points], list(points.values()), marker="o", label=name)
    right.set(xscale="log", ylim=(0, None), xlabel="tokens", ylabel="microseconds per token")
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Fill the blocks of all pages, and draw the plot."""
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
    plot(RESULTS / "embed.png")


if __name__ == "__main__":
    main()
