"""Write stored results into the pages: `python -m benchmarks.tables`, at the end of `make bench`.

The blocks from docs/benchmarks/*.json are defined here, those of the English model's card in
card_tables.py.
"""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import card_tables  # noqa: F401, for its blocks
from benchmarks.blocks import block, fill, table
from benchmarks.measured import RESULTS, ROOT, Rate, load
from benchmarks.serve import KINDS, MEMORY_SECONDS, RUNS, SIZES
from benchmarks.study.paper import PERPLEXITIES

PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "benchmarks",
            "decisions",
            "finetuning",
            "models/english",
            "models/english-text",
            "pretraining",
            "probes",
            "scaling",
            "serve",
        )
    ),
]


def _embed(section: str) -> dict[str, Any]:
    found: dict[str, Any] = load(RESULTS / "embed.json")[section]
    return found


def _rate(section: dict[str, Any], job: str) -> Rate:
    return Rate(section["n_tokens"], section["seconds"][job])


def _both(rate: Rate) -> str:
    return f"{rate.median:,.0f} ({rate.best:,.0f})"


def _is_busy(conditions: dict[str, Any]) -> bool:
    return (conditions["busy_cores"] or 0) > 0.25


def _describe(conditions: dict[str, Any]) -> str:
    return (
        f"{conditions['n_cores']} cores of {conditions['cpu']}, {conditions['threads']} threads, "
        f"torch {conditions['torch']}, Python {conditions['python']}, kernels: "
        f"{conditions['kernels']}; {conditions['date']}, commit {conditions['commit']}, "
        f"other work used {conditions['busy_cores']} cores at the start"
        + (" (**wall-clock times and ratios are rough**)" * _is_busy(conditions))
    )


# Each row: description, section, our job, AllenNLP's job as used and at its best.
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
    """Conditions of the embedding benchmark."""
    return _describe(_embed("small")["environment"])


@block
def speed() -> str:
    """Tokens per second next to AllenNLP."""
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
    """Speed of AllenNLP with each batch size that was tried."""
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
    """Numbers of sentences and tokens that were embedded."""
    small, single, original = (_embed(name) for name in ("small", "single", "original"))
    return (
        f"{small['n_sentences']} sentences ({small['n_tokens']:,} tokens, {small['n_words']:,} "
        f"distinct words) for the small model, {original['n_sentences']} for the original, "
        f"{single['n_sentences']} one at a time"
    )


@block
def product() -> str:
    """Speed of the LSTM layers as a share of that of a large matrix product."""
    section = _embed("product")
    flops = section["flops"]
    layers, limit = (max(flops[name]) / 1e9 for name in ("layers", "product"))
    return (
        f"The LSTM layers of the original model, in a batch of 96 sentences, do {layers:.0f} "
        f"GFLOP/s, {layers / limit:.0%} of PyTorch's largest product in the same run "
        f"({limit:.0f} GFLOP/s)."
        + " Other work disturbed both; the table of kernels below is by processor time."
        * _is_busy(section["environment"])
    )


@block
def start() -> str:
    """Time from the import to the first vector."""
    seconds = {name: Rate(1, each) for name, each in _embed("start")["seconds"].items()}
    ours, theirs = 1 / seconds["ours"].median, 1 / seconds["as used"].median
    return (
        f"From the import to the first vector of the small model: {ours:.1f} s, "
        f"AllenNLP {theirs:.1f} s (**{ours / theirs:.2f}x**)."
    )


@block
def memory() -> str:
    """Memory while a long stream is embedded."""
    section = _embed("memory")
    sizes = section["megabytes"]
    return (
        f"A stream of {section['n_tokens']:,} tokens through the small model takes "
        f"{section['peak_megabytes']:.0f} MB at most over the bare process "
        f"({sizes[len(sizes) // 4]:.0f} MB after a quarter, {sizes[-1]:.0f} MB at the end)."
    )


@block
def cost() -> str:
    """Speed and memory of three models on one and two threads."""
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
    """Microseconds per token by corpus size, and by sentence length."""
    section = _embed("growth")
    tables = []
    for name, unit in (("by corpus size", "corpus"), ("by sentence length", "sentence")):
        points = section[name]
        header = [f"tokens in the {unit}", *(f"{int(n):,}" for n in points)]
        tables.append(table(header, ["microseconds", *(f"{t:.0f}" for t in points.values())]))
    return "\n\n".join(tables)


def _ratios() -> list[list[float]]:
    """Speedup over AllenNLP as used and at its best, by medians, for each row of SPEEDS."""
    found = []
    for _, name, ours, used, best in SPEEDS:
        section = _embed(name)
        mine = _rate(section, ours).median
        found.append([mine / _rate(section, job).median for job in (used, best)])
    return found


@block
def readme_speed() -> str:
    """Speedups over AllenNLP in one sentence."""
    new, known, *_, original = _ratios()
    n_cores = _embed("small")["environment"]["n_cores"]
    return (
        f"On {n_cores} cores, compared with AllenNLP as it is commonly used: {new[0]:.0f} times as "
        f"fast for the small model with new words, {known[0]:.0f} times with known words, "
        f"{original[0]:.0f} times for the original model; compared with AllenNLP at its best: "
        f"{new[1]:.0f}, {known[1]:.0f} and {original[1]:.0f} times"
    )


def _train(section: str) -> dict[str, Any]:
    found: dict[str, Any] = load(RESULTS / "train.json")[section]
    return found


def _training_rates() -> dict[str, Rate]:
    """Tokens per second; `Rate` takes the seconds per token."""
    rates = _train("speed")["tokens_per_second"]
    return {name: Rate(1, [1 / rate for rate in each]) for name, each in rates.items()}


@block
def training() -> str:
    """Speed of pre-training next to AI2's trainer."""
    rates = _training_rates()
    rows = [["", "tokens/s, median (best)", "ratio"]]
    ratio = rates["ours"].median / rates["bilm"].median
    rows.append(["this package", _both(rates["ours"]), f"**{ratio:.1f}x**"])
    rows.append(["bilm", _both(rates["bilm"]), ""])
    return table(*rows)


@block
def training_conditions() -> str:
    """Conditions of the training benchmark."""
    return _describe(_train("speed")["environment"])


@block
def training_parts() -> str:
    """Time of the parts of a training step, and memory."""
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
    """Speed of pre-training, for the table of machines."""
    return f"{_training_rates()['ours'].median:,.0f}"


@block
def pretraining_forks() -> str:
    """Perplexity by learning rate, continued from one checkpoint."""
    forks = load(RESULTS / "pretraining-forks.json")
    rows = []
    for sets, fork in forks.items():
        values = dict(each.removeprefix("optimizer.").split("=") for each in sets.split())
        perplexity = f"{fork['perplexity']['mean']:.1f}"
        rows.append([values["learning_rate"], values.get("muon_every", "2"), perplexity])
    return table(["learning rate", "`muon_every`", "held-out perplexity"], *rows)


@block
def pretraining_negatives() -> str:
    """Perplexity by number of negative samples, continued from one checkpoint."""
    forks = load(RESULTS / "pretraining-negatives.json")
    rows = [
        [f"{int(sets.rpartition('=')[2]):,}", f"{fork['perplexity']['mean']:.1f}"]
        for sets, fork in forks.items()
    ]
    return table(["negative samples", "held-out perplexity"], *rows)


@block
def finetuning() -> str:
    """Perplexity of a task's text before and after an epoch, from the study's runs."""
    rows = [["text", "unknown words", "before", "after", "the paper, its model"]]
    for name, text in (("wnut", "tweets and other user text (WNUT-17)"), ("sst", "film reviews")):
        run = load(ROOT / "docs" / "results" / "runs" / f"tune-{name}.json")
        before, after = (f"{run[when]['mean']:.1f}" for when in ("before", "after"))
        paper = "{} to {}".format(*PERPLEXITIES[name])
        if name == "wnut":
            paper += ", for CoNLL-2003"
        rows.append([text, f"{run['before']['unknown_rate']:.1%}", before, after, paper])
    return table(*rows)


@block
def word_maps() -> str:
    """Trustworthiness of word maps, for docs/decisions.md."""
    found = load(RESULTS / "word_maps.json")
    kept = ", ".join(
        f"{name} {each['trustworthiness']:.3f} ({each['seconds']:.0f} s)"
        for name, each in found["maps"].items()
    )
    return f"{found['rows']:,} words in context: {kept}"


@block
def scoring() -> str:
    """Speed of the softmax kernel against PyTorch."""
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
    """A table of cells named "size, rows", with a line for each number of rows."""
    sizes = list(dict.fromkeys(name.split(", ")[0] for name in cells))
    n_rows = list(dict.fromkeys(name.split(", ")[1] for name in cells))
    return table(["rows", *sizes], *([n, *(cells[f"{s}, {n}"] for s in sizes)] for n in n_rows))


@block
def kernels_conditions() -> str:
    """Conditions of the kernel benchmark."""
    return _describe(_kernels("layers")["environment"])


@block
def kernels_layers() -> str:
    """One layer: GFLOP/s, share of a matrix product's speed, and speedup over PyTorch."""
    cells = {
        name: f"{each['kernel']:.0f} GFLOP/s, {each['kernel'] / each['product']:.0%}, "
        f"{each['kernel'] / each['torch']:.1f}x"
        for name, each in _kernels("layers")["gflops"].items()
    }
    return _by_size(cells)


@block
def kernels_words() -> str:
    """Times of convolutions and highways, next to PyTorch."""
    rows = [["words", "convolutions, ms", "PyTorch's", "highway, ms", "PyTorch's"]]
    for n_words, each in _kernels("words")["milliseconds"].items():
        rows.append([n_words, *(f"{t:.1f}" for t in each.values())])
    return table(*rows)


@block
def builds() -> str:
    """Speed with a native build, the wheel's prebuilt kernels, and none."""
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
    """Speedup of one layer in bfloat16 over float32."""
    layers = _kernels("bfloat16")["layers"]
    return _by_size({name: f"{each['ratio']:.1f}x" for name, each in layers.items()})


@block
def amx() -> str:
    """Speedup of one layer and of training in bfloat16, without AMX and with it."""
    section = _kernels("amx")
    ways = [section["avx512"], section["amx"]]
    cells = {
        name: " / ".join(f"{way['layers'][name]['ratio']:.1f}x" for way in ways)
        for name in ways[0]["layers"]
    }
    ratios = [way["training"]["bfloat16"] / way["training"]["float32"] for way in ways]
    return (
        f"{_by_size(cells)}\n\nTwo layers of 1,024 cells, forward and backward pass: "
        f"{ratios[0]:.1f}x / {ratios[1]:.1f}x. Measured on {_describe(section['environment'])}."
    )


@block
def bfloat16_embed() -> str:
    """Speed of embedding in float32 and bfloat16."""
    section = _embed("bfloat16")
    rows = [["model", "words", "float32, tokens/s", "bfloat16", "ratio"]]
    for size in ("small", "original"):
        for words in ("new words", "known words"):
            full, half = (
                _rate(section[size], f"{dtype}, {words}") for dtype in ("float32", "bfloat16")
            )
            ratio = f"**{half.median / full.median:.2f}x**"
            rows.append([size, words.split()[0], _both(full), _both(half), ratio])
    return table(*rows)


@block
def bfloat16_error() -> str:
    """Vectors, perplexity and probes of the English model in float32 and bfloat16."""
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


def _serve(section: str) -> dict[str, Any]:
    found: dict[str, Any] = load(RESULTS / "serve.json")[section]
    return found


@block
def serve_conditions() -> str:
    """Conditions of the load test of the server."""
    return _describe(_serve("64 clients")["environment"])


@block
def serve_load() -> str:
    """Latency and throughput of the server."""
    rows = [["", "requests", "errors", "tokens/s", *(f"{size}, p50 / p99 ms" for size in SIZES)]]
    for name in RUNS:
        run = _serve(name)
        times = [run["latency"].get(size) for size in SIZES]
        rows.append(
            [
                name,
                f"{run['requests']:,}",
                str(run["errors"]),
                f"{run['tokens_per_second']:,}",
                *(f"{t['p50_ms']:,.0f} / {t['p99_ms']:,.0f}" if t else "" for t in times),
            ]
        )
    return table(*rows)


@block
def serve_routes() -> str:
    """Latency by route with 16 and 64 clients."""
    names = ("16 clients", "64 clients")
    routes = [f"/api/{kind}" for kind in KINDS]
    rows = [["p50 / p99 ms", *(f"`{route}`" for route in routes)]]
    for name in names:
        times = [_serve(name)["latency_by_route"][route] for route in routes]
        rows.append([name, *(f"{t['p50_ms']:,.0f} / {t['p99_ms']:,.0f}" for t in times)])
    return table(*rows)


@block
def serve_gain() -> str:
    """Speedup by batching, memory, and the largest difference from the library's results."""
    many = _serve("64 clients")
    alone, single = (
        many["tokens_per_second"] / _serve(name)["tokens_per_second"]
        for name in ("64 clients, one sentence per batch", "one client")
    )
    memory = _serve("16 clients")["memory_mb"]
    per_minute = 60 // MEMORY_SECONDS
    difference = max(_serve(name)["worst_difference"] for name in RUNS)
    return (
        f"Batches give {alone:.1f} times the tokens/s of one sentence per batch, and {single:.1f} "
        f"times those of one client. With 16 clients the server takes {memory[0]:,} MB at the "
        f"start, {memory[per_minute]:,} MB after a minute and {memory[-1]:,} MB after "
        f"{len(memory) // per_minute} minutes. Results under load differ from those of the library "
        f"by at most {difference:.0e}."
    )


@block
def serve_health() -> str:
    """The slowest response of /health during each hard request."""
    hard = {name: found for name, found in _serve("health").items() if name != "environment"}
    rows = [["request", "status", "seconds", "slowest `/health`, ms"]]
    for name, found in hard.items():
        rows.append([name, *(str(found[key]) for key in ("status", "seconds", "health_ms"))])
    return table(*rows)


@block
def scaling_conditions() -> str:
    """Conditions of the benchmark of workers."""
    found = load(RESULTS / "scaling.json")
    return f"{found['tokens']:,} tokens, {found['size']} model; {_describe(found['environment'])}"


@block
def scaling() -> str:
    """Tokens per second by number of workers."""
    rows = load(RESULTS / "scaling.json")["rows"]
    first = rows[0]["writing_tokens_per_second"]
    cells = [
        [
            row["way"],
            f"{row['tokens_per_second']:,.0f}",
            f"{row['writing_tokens_per_second']:,.0f}",
            f"{row['writing_tokens_per_second'] / first:.2f}x",
        ]
        for row in rows
    ]
    return table(["", "all", "writing", ""], *cells)


# Number of tokens in one billion words of English.
N_ESTIMATED = 1.17e9
SHARD_BYTES = 128 * 2**20
DOLLARS_PER_CORE_HOUR = 0.05


@block
def scaling_estimate() -> str:
    """Time, price and size of a billion words, from the speed of one core."""
    columns = []
    for size, dim in (("small", 256), ("original", 1024)):
        rate = _rate(_embed("cost")[f"{size}, 1"], "new words").median
        hours = N_ESTIMATED / rate / 3600
        n_bytes = N_ESTIMATED * dim * 2
        columns.append(
            [
                f"{size} ({dim:,} wide, {rate:,.0f} tokens/s per core)",
                f"{hours:,.0f}",
                *(_time(hours / n_cores) for n_cores in (10, 100, 1000)),
                f"${hours * DOLLARS_PER_CORE_HOUR:,.0f}",
                f"{n_bytes / SHARD_BYTES:,.0f}; {n_bytes / 1e12:.1f} TB",
                f"{SHARD_BYTES / (dim * 2) / rate:,.0f} s",
                " / ".join(f"{n * rate * dim * 2 / 1e6:,.0f}" for n in (10, 100, 1000)),
            ]
        )
    names = [
        "",
        "core-hours",
        *(f"on {n_cores:,} cores" for n_cores in (10, 100, 1000)),
        f"at ${DOLLARS_PER_CORE_HOUR} per core-hour (your price may differ)",
        "shards: number, bytes",
        "time of a chunk",
        "written, MB/s: 10 / 100 / 1,000 cores",
    ]
    return table(*map(list, zip(names, *columns, strict=True)))


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"


def plot(path: Path) -> None:
    """Plot the speedup over AllenNLP as bars, and the time per token as lines."""
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
