"""The study as data: tasks, variants of their settings, and which runs each table needs.

Out: `RUNS`, in the order they are made, the most telling first. A run that several tables need is
made once. Minutes are those of one core; `python -m benchmarks.study plan` adds them up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Settings that had another name when the stored results were made.
RENAMED = {
    "optimiser.halve_after": "optimizer.lr_plateau_patience",
    "optimiser.": "optimizer.",
    "data.train_share": "data.paragraph_fraction",
    "train.share": "train.train_fraction",
}


def current_names(sets: Sequence[str]) -> list[str]:
    """The settings of a stored result, `name=value`, by the names they have now."""
    renamed = list(sets)
    for old, new in RENAMED.items():
        renamed = [new + s.removeprefix(old) if s.startswith(old) else s for s in renamed]
    return renamed


@dataclass(frozen=True)
class StudiedTask:
    """A task on its data here. Settings hold for the baseline too, those of ELMo aside."""

    task: str
    title: str
    train: str
    dev: str
    test: str | None
    sets: tuple[str, ...]
    n_epochs: int
    patience: int
    minutes: float  # of a run with all training data
    also: tuple[str, ...] = ()  # further data to measure with
    text: str | None = None  # its text, as benchmarks/finetune.py names it

    @property
    def place(self) -> str:
        """Where ELMo is, if nothing else is said."""
        return next(s for s in self.sets if s.startswith("elmo.place=")).removeprefix("elmo.place=")


@dataclass(frozen=True)
class Variant:
    """How a run differs from the task with ELMo."""

    title: str
    sets: tuple[str, ...] = ()
    has_elmo: bool = True
    has_glove: bool = True
    is_tuned: bool = False  # the biLM has been fine-tuned on the task's text
    weights: str | None = None  # the package's biLM as it was at this commit; absent: as it is
    share: float = 1.0  # of the training data that the task has in this study
    n_epochs_times: float = 1.0  # little data is read more often


@dataclass(frozen=True)
class Run:
    """One training run."""

    task: str
    variant: str
    seed: int
    tables: frozenset[str] = field(compare=False)

    @property
    def key(self) -> str:
        """The name of its files."""
        return f"{self.task}-{self.variant}-{self.seed}"

    def is_made_by(self, result: Mapping[str, Any]) -> bool:
        """Whether a result is of this run with the settings that it has now."""
        return result["key"] == self.key and current_names(result["sets"]) == list(self.sets)

    @property
    def minutes(self) -> float:
        """About how long it takes; measuring the dev data is about a tenth of an epoch."""
        variant = VARIANTS[self.variant]
        epoch = (variant.share + DEV_COST) / (1 + DEV_COST)
        return STUDIED[self.task].minutes * variant.n_epochs_times * epoch

    @property
    def sets(self) -> list[str]:
        """Settings over the task's defaults."""
        studied, variant = STUDIED[self.task], VARIANTS[self.variant]
        sets = [
            *studied.sets,
            *variant.sets,
            f"train.n_epochs={round(studied.n_epochs * variant.n_epochs_times)}",
            # A little data is learned for a long time without a trace in the dev score.
            f"train.patience={studied.patience if variant.share == 1 else 'none'}",
            f"train.train_fraction={variant.share:g}",
            f"train.seed={self.seed}",
        ]
        return [s for s in sets if variant.has_elmo or not s.startswith("elmo.")]


STUDIED = {
    "squad": StudiedTask(
        "squad",
        "SQuAD",
        "squad/train.json.xz",
        "squad-dev/dev.json",
        "squad-dev/test.json",
        (
            *("elmo.place=both", "elmo.dropout=0.2"),
            *("data.paragraph_fraction=0.1", "train.batch_size=20", "model.dropout=0.1"),
            *("optimizer.learning_rate=2e-3", "optimizer.beta2=0.999"),
        ),
        n_epochs=8,
        patience=3,
        minutes=35,
        text="squad-questions",
    ),
    "nli": StudiedTask(
        "nli",
        "SNLI (counterfactual)",
        "nli/counterfactual-snli/train.tsv",
        "nli/counterfactual-snli/dev.tsv",
        "nli/counterfactual-snli/test.tsv",
        (
            *("elmo.place=both", "elmo.dropout=0.3", "elmo.gamma=0.4"),
            *("words.dropout=0.1", "model.dropout=0.1"),
        ),
        n_epochs=10,
        patience=3,
        minutes=8,
        text="snli",
    ),
    "sick": StudiedTask(
        "nli",
        "SICK entailment",
        "sick/train.tsv",
        "sick/dev.tsv",
        "sick/test.tsv",
        ("elmo.place=both", "optimizer.lr_plateau_patience=2"),
        n_epochs=20,
        patience=8,
        minutes=5,
    ),
    "srl": StudiedTask(
        "srl",
        "SRL (PropBank EWT)",
        "srl/propbank-ewt/train.conll.xz",
        "srl/propbank-ewt/dev.conll.xz",
        "srl/propbank-ewt/test.conll.xz",
        ("elmo.place=input", "elmo.dropout=0.2", "elmo.gamma=0.4"),
        n_epochs=8,
        patience=3,
        minutes=15,
    ),
    "coref": StudiedTask(
        "coref",
        "coreference (LitBank)",
        "coref/litbank/train.conll.xz",
        "coref/litbank/dev.conll.xz",
        "coref/litbank/test.conll.xz",
        ("elmo.place=input",),
        n_epochs=10,
        patience=6,
        minutes=16,
        also=("coref/gap/gap-test.tsv",),
    ),
    "ontogum": StudiedTask(
        "coref",
        "coreference (OntoGUM)",
        "coref/ontogum/train.conll.xz",
        "coref/ontogum/dev.conll.xz",
        "coref/ontogum/test.conll.xz",
        ("elmo.place=input", "data.skips_broken=true"),
        n_epochs=8,
        patience=5,
        minutes=14,
        also=("coref/gap/gap-test.tsv",),
    ),
    "ner": StudiedTask(
        "ner",
        "NER (WNUT 2017)",
        "ner/wnut17/train.conll",
        "ner/wnut17/dev.conll",
        "ner/wnut17/test.conll",
        ("elmo.place=input", "elmo.dropout=0.2"),
        n_epochs=15,
        patience=5,
        minutes=4,
        text="wnut",
    ),
    "wikigold": StudiedTask(
        "ner",
        "NER (Wikigold)",
        "wikigold/train.conll",
        "wikigold/dev.conll",
        "wikigold/test.conll",
        ("elmo.place=input", "elmo.dropout=0.2"),
        n_epochs=20,
        patience=6,
        minutes=2,
    ),
    "sentiment": StudiedTask(
        "sentiment",
        "SST-5",
        "research-only/sst/train.txt",
        "research-only/sst/dev.txt",
        "research-only/sst/test.txt",
        (
            *("elmo.place=input", "elmo.dropout=0.3", "words.dropout=0.3"),
            *("data.has_phrases=false", "train.batch_size=32"),
        ),
        n_epochs=8,
        patience=3,
        minutes=5,
        text="sst",
    ),
}

VARIANTS = {
    "baseline": Variant("no ELMo", has_elmo=False),
    "baseline-longer": Variant("no ELMo, twice the epochs", has_elmo=False, n_epochs_times=2.0),
    "elmo": Variant("ELMo"),
    "top": Variant("last layer only", ("elmo.layers=top",)),
    "lambda-1": Variant("all layers, lambda = 1", ("elmo.penalty=1.0",)),
    "lambda-small": Variant("all layers, lambda = 0.001", ("elmo.penalty=0.001",)),
    "at-input": Variant("at the input", ("elmo.place=input",)),
    "at-output": Variant("at the output", ("elmo.place=output",)),
    "at-both": Variant("at both", ("elmo.place=both",)),
    "forward": Variant("forward language model only", ("elmo.direction=forward",)),
    "backward": Variant("backward language model only", ("elmo.direction=backward",)),
    "characters": Variant("character layer only", ("elmo.layers=0",)),
    "no-gamma": Variant("without gamma", ("elmo.has_gamma=false",)),
    "top-no-gamma": Variant(
        "last layer only, without gamma", ("elmo.layers=top", "elmo.has_gamma=false")
    ),
    "no-glove": Variant("ELMo without GloVe", ("words=none",), has_glove=False),
    "random-words": Variant(
        "no ELMo, random vectors instead of GloVe", ("words.is_trained=true",), False, False
    ),
    "warm": Variant("warm state", ("elmo.state=warm",)),
    "carry": Variant("carried state", ("elmo.state=carry",)),
    "tuned": Variant("ELMo fine-tuned on the task's text", is_tuned=True),
    "perplexity-127": Variant("ELMo of a biLM of perplexity 127.5", weights="bfe9e0f"),
    "perplexity-91": Variant("ELMo of a biLM of perplexity 91.2", weights="b4bd53b"),
}
DEV_COST = 0.12
SHARES = {0.01: 10.0, 0.1: 3.0, 0.3: 1.5}  # and how many times the epochs
for _share, _times in SHARES.items():
    _name = f"{round(100 * _share)}-percent"
    VARIANTS |= {
        f"baseline-{_name}": Variant(
            f"no ELMo, {_share:.0%}", has_elmo=False, share=_share, n_epochs_times=_times
        ),
        f"elmo-{_name}": Variant(f"ELMo, {_share:.0%}", share=_share, n_epochs_times=_times),
    }

# The package's biLMs, by their held-out perplexity in docs/models/english.md.
BILMS = {"perplexity-127": 127.5, "perplexity-91": 91.2, "elmo": 76.0}
PLACES = ("input", "both", "output")
LAYER_CHOICES = ("baseline", "top", "lambda-1", "lambda-small")
ABLATIONS = (
    *("baseline", "elmo", "forward", "backward", "characters", "no-gamma", "top-no-gamma"),
    *("no-glove", "random-words", "warm", "carry"),
)
SHARE_VARIANTS = tuple(
    f"{kind}-{round(100 * share)}-percent" for share in SHARES for kind in ("baseline", "elmo")
)
TABLE1_TASKS = ("wikigold", "nli", "sick", "sentiment", "ner", "srl", "ontogum", "squad", "coref")
TABLES = {
    "table1": "Table 1: with and without ELMo",
    "table2": "Table 2: layers",
    "table3": "Table 3: position",
    "ablations": "Ablations",
    "figure1": "Figure 1: amount of data, number of epochs",
    "longer": "Twice the epochs without ELMo",
    "finetuning": "Fine-tuning the biLM on the task's text",
    "bilms": "Better biLMs",
}


def placed(task: str, place: str) -> str:
    """The variant with ELMo at a place: for one place it is what the task has anyway."""
    return "elmo" if STUDIED[task].place == place else f"at-{place}"


def layered(task: str, choice: str) -> str:
    """The variant with a choice of layers: most tasks have the small lambda anyway.

    The tagger has 0.1, as the paper's.
    """
    return "elmo" if choice == "lambda-small" and STUDIED[task].task != "ner" else choice


def _stage(
    table: str, tasks: Sequence[str], variants: Sequence[str], *seeds: int
) -> Iterator[tuple[str, str, str, int]]:
    for seed in seeds:
        for task in tasks:
            yield from ((table, task, variant, seed) for variant in variants)


def _questions(task: str, *seeds: int) -> Iterator[tuple[str, str, str, int]]:
    """Which layers, where, and with how much data; of Wikigold, what each part adds too."""
    for seed in seeds:
        yield from _stage("table2", (task,), [layered(task, c) for c in LAYER_CHOICES], seed)
        yield from _stage("table3", (task,), [placed(task, place) for place in PLACES], seed)
        if task == "wikigold":
            yield from _stage("ablations", (task,), ABLATIONS, seed)
        yield from _stage("figure1", (task,), (*SHARE_VARIANTS, "baseline", "elmo"), seed)


def _stages() -> Iterator[tuple[str, str, str, int]]:
    """All runs of all tables: (table, task, variant, seed)."""
    both, tuned = ("baseline", "elmo"), ("nli", "sentiment", "ner")
    quick, slow = ("wikigold", "sick", *tuned), ("ontogum", "srl")
    yield from _stage("table1", TABLE1_TASKS, both, 1)
    # Wikigold and SST-5 take minutes a run: each question of the study is asked of them.
    yield from _questions("wikigold", 1)
    yield from _stage("finetuning", tuned, ("elmo", "tuned"), 1)
    yield from _stage("table1", quick, both, 2, 3)
    yield from _stage("bilms", ("wikigold",), ("baseline", *BILMS), 1, 2, 3)
    yield from _stage("bilms", ("nli", "sentiment"), ("perplexity-91",), 1, 2, 3)
    yield from _stage("bilms", ("ner", "ontogum", "squad"), ("perplexity-91",), 1)
    # Their baselines are best in their last epochs: is it speed alone that ELMo brings?
    yield from _stage("longer", ("nli", "ontogum"), ("baseline-longer",), 1)
    yield from _questions("sentiment", 1)
    yield from _stage("table1", slow, both, 2, 3)
    yield from _stage("longer", ("nli",), ("baseline-longer",), 2, 3)
    yield from _questions("wikigold", 2, 3)
    yield from _stage("finetuning", tuned, ("elmo", "tuned"), 2, 3)
    yield from _questions("sentiment", 2, 3)
    yield from _stage("longer", ("srl", "squad"), ("baseline-longer",), 1)
    yield from _stage("table1", ("squad", "coref"), both, 2, 3)


def make_runs() -> list[Run]:
    """Each run once, in the order of the stages, with all tables that it is for."""
    tables: dict[tuple[str, str, int], set[str]] = {}
    for table, *which in _stages():
        task, variant, seed = which
        tables.setdefault((str(task), str(variant), int(seed)), set()).add(table)
    return [Run(*which, frozenset(names)) for which, names in tables.items()]


RUNS = make_runs()
