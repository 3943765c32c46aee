"""The plan of the study: tasks, the settings tried for each, variants, and the runs of each table.

A run continues until patience ends it. With and without ELMo, the same settings of a task are tried
with seed 1; those with the best dev score are used for all other runs of that side. So the plan
depends on finished runs: `make_runs` takes the settings that were chosen so far.
Out: runs in the order of execution, the cheapest and most informative first.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elmo.settings import to_mapping
from elmo.tasks import find_task
from elmo.tasks.config import TaskConfig, read_config

VERSION = 4  # of the plan; results of another version are not comparable
MAX_EPOCHS = 2000  # never reached: patience ends a run


@dataclass(frozen=True)
class StudiedTask:
    """A task and its data in this study. The baseline has the same settings, except ELMo's."""

    task: str
    title: str
    train: str
    dev: str
    test: str
    sets: tuple[str, ...]
    patience: int
    minutes: float  # of a run with all training data
    tried: tuple[tuple[str, ...], ...] = ((),)  # candidates; the best dev score decides
    n_folds: int = 1  # of cross-validation; `{fold}` in the names of the data
    also: tuple[str, ...] = ()  # further test data
    text: str | None = None  # the name of its text in benchmarks/finetune.py

    @property
    def place(self) -> str:
        """Where ELMo is added by default."""
        return next(s for s in self.sets if s.startswith("elmo.place=")).removeprefix("elmo.place=")

    @property
    def folds(self) -> Sequence[int]:
        """The indices of the folds."""
        return range(self.n_folds)


@dataclass(frozen=True)
class Variant:
    """How a run differs from the task with ELMo."""

    title: str
    sets: tuple[str, ...] = ()
    has_elmo: bool = True
    has_glove: bool = True
    is_tuned: bool = False  # the biLM has been fine-tuned on the task's text
    weights: str | None = None  # commit of an earlier biLM of the package; None: the study's biLM
    share: float = 1.0  # of the training data that the task has in this study
    evaluate_every: int = 1  # epochs; more with little data, whose epochs are short

    @property
    def side(self) -> str:
        """The variant of Table 1 whose settings it uses."""
        return "elmo" if self.has_elmo else "baseline"


@dataclass(frozen=True)
class Run:
    """One training run."""

    task: str
    variant: str
    tried: int  # index of the settings in `StudiedTask.tried`
    seed: int
    fold: int = 0
    tables: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def key(self) -> str:
        """The name of its files, without extension."""
        fold = f"-fold{self.fold}" if STUDIED[self.task].n_folds > 1 else ""
        return f"{self.task}-{self.variant}-{self.tried}-{self.seed}{fold}"

    def is_made_by(self, result: Mapping[str, Any]) -> bool:
        """Whether a result is of this run with its current settings, those of its task included."""
        is_of_plan = result["key"] == self.key and result.get("plan") == VERSION
        return is_of_plan and result["settings"] == self.settings

    @property
    def config(self) -> TaskConfig:
        """The settings of its task, with its own."""
        defaults = find_task(STUDIED[self.task].task).defaults()
        config: TaskConfig = read_config(
            defaults, None, self.sets, has_elmo=VARIANTS[self.variant].has_elmo
        )
        return config

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are in a result's file."""
        settings: dict[str, Any] = json.loads(json.dumps(to_mapping(self.config)))
        return settings

    @property
    def minutes(self) -> float:
        """Estimated duration; a run with less data has as many steps."""
        return STUDIED[self.task].minutes

    @property
    def sets(self) -> list[str]:
        """Settings that override the task's defaults."""
        studied, variant = STUDIED[self.task], VARIANTS[self.variant]
        sets = [
            *studied.sets,
            *studied.tried[self.tried],
            *variant.sets,
            f"train.n_epochs={MAX_EPOCHS}",
            f"train.patience={studied.patience}",
            f"train.evaluate_every={variant.evaluate_every}",
            f"train.train_fraction={variant.share:g}",
            f"train.seed={self.seed}",
        ]
        return [s for s in sets if variant.has_elmo or not s.startswith("elmo.")]


LESS_DROPOUT = ("words.dropout=0.1", "model.dropout=0.1")
STUDIED = {
    "wikigold": StudiedTask(
        "ner",
        "NER (Wikigold)",
        *(f"wikigold/{{fold}}/{part}.conll" for part in ("train", "dev", "test")),
        ("elmo.place=input", "model.dim=100"),
        patience=8,
        minutes=2.5,
        tried=((), ("model.dropout=0.3",)),
        n_folds=5,
    ),
    "ner": StudiedTask(
        "ner",
        "NER (WNUT 2017)",
        *(f"ner/wnut17/{part}.conll" for part in ("train", "dev", "test")),
        ("elmo.place=input", "model.dim=100"),
        patience=6,
        minutes=3.5,
        tried=((), ("model.dropout=0.3",)),
        text="wnut",
    ),
    "sick": StudiedTask(
        "nli",
        "SICK entailment",
        *(f"sick/{part}.tsv" for part in ("train", "dev", "test")),
        ("elmo.place=both", "optimizer.lr_plateau_patience=2"),
        patience=8,
        minutes=6,
        tried=((), LESS_DROPOUT),
    ),
    "nli": StudiedTask(
        "nli",
        "SNLI (counterfactual)",
        *(f"nli/counterfactual-snli/{part}.tsv" for part in ("train", "dev", "test")),
        ("elmo.place=both",),
        patience=6,
        minutes=12,
        tried=((), ("elmo.dropout=0.3", "elmo.gamma=0.4", *LESS_DROPOUT)),
        text="snli",
    ),
    "sentiment": StudiedTask(
        "sentiment",
        "SST-5",
        *(f"research-only/sst/{part}.txt" for part in ("train", "dev", "test")),
        ("elmo.place=input", "data.max_phrases=3", "train.batch_size=64"),
        patience=4,
        minutes=14,
        tried=((), ("elmo.dropout=0.3", "words.dropout=0.3")),
        text="sst",
    ),
    "srl": StudiedTask(
        "srl",
        "SRL (PropBank EWT)",
        *(f"srl/propbank-ewt/{part}.conll.xz" for part in ("train", "dev", "test")),
        # The learning rate is halved early, so that patience does not end a run before that helps.
        ("elmo.place=input", "optimizer.lr_plateau_patience=1", "train.ema_decay=0.999"),
        patience=4,
        minutes=30,
        tried=((), ("elmo.dropout=0.2", "elmo.gamma=0.4", "model.dropout=0.2")),
    ),
    "ontogum": StudiedTask(
        "coref",
        "coreference (OntoGUM)",
        *(f"coref/ontogum/{part}.conll.xz" for part in ("train", "dev", "test")),
        ("elmo.place=input", "data.skips_broken=true", "optimizer.lr_plateau_patience=2"),
        patience=6,
        minutes=35,
        also=("coref/gap/gap-test.tsv",),
    ),
    "squad": StudiedTask(
        "squad",
        "SQuAD",
        *("squad/train.json.xz", "squad-dev/dev.json", "squad-dev/test.json"),
        (
            *("elmo.place=both", "elmo.dropout=0.2"),
            *("data.paragraph_fraction=0.1", "train.batch_size=20", "model.dropout=0.1"),
            *("optimizer.learning_rate=2e-3", "optimizer.beta2=0.999"),
            "optimizer.lr_plateau_patience=1",
        ),
        patience=4,
        minutes=65,
        text="squad-questions",
    ),
}

VARIANTS = {
    "baseline": Variant("no ELMo", has_elmo=False),
    "elmo": Variant("ELMo"),
    "top": Variant("last layer only", ("elmo.layers=top",)),
    "lambda-1": Variant("all layers, lambda = 1", ("elmo.penalty=1.0",)),
    "at-input": Variant("at the input", ("elmo.place=input",)),
    "at-output": Variant("at the output", ("elmo.place=output",)),
    "at-both": Variant("at both", ("elmo.place=both",)),
    "forward": Variant("forward language model only", ("elmo.direction=forward",)),
    "backward": Variant("backward language model only", ("elmo.direction=backward",)),
    "characters": Variant("character layer only", ("elmo.layers=0",)),
    "no-glove": Variant("ELMo without GloVe", ("words=none",), has_glove=False),
    "tuned": Variant("ELMo fine-tuned on the task's text", is_tuned=True),
    "perplexity-76": Variant("ELMo of a biLM of perplexity 76.0", weights="b22039c"),
}
# Shares of the training data, and epochs between evaluations: about as many steps as with all data.
SHARES = {0.1: 10, 0.3: 3}
for _share, _times in SHARES.items():
    _name = f"{round(100 * _share)}-percent"
    VARIANTS |= {
        f"baseline-{_name}": Variant(
            f"no ELMo, {_share:.0%}", has_elmo=False, share=_share, evaluate_every=_times
        ),
        f"elmo-{_name}": Variant(f"ELMo, {_share:.0%}", share=_share, evaluate_every=_times),
    }

# The package's biLMs: the earlier, smaller one, then the model that is studied.
BILMS = ("perplexity-76", "elmo")
PLACES = ("input", "both", "output")
LAYER_CHOICES = ("baseline", "top", "lambda-1", "elmo")
ABLATIONS = (*("baseline", "elmo", "forward", "backward", "characters", "no-glove"),)
SHARE_VARIANTS = tuple(
    f"{kind}-{round(100 * share)}-percent" for share in SHARES for kind in ("baseline", "elmo")
)
SIDES = ("baseline", "elmo")
QUICK, SLOW = ("ner", "sick", "wikigold", "nli", "sentiment"), ("srl", "ontogum")
TABLE1_TASKS = (*QUICK, *SLOW, "squad")
SEEDS = {task: (1, 2) if task == "squad" else (1, 2, 3) for task in TABLE1_TASKS}
# Tasks of Tables 2 and 3, ablations and Figure 1: runs take minutes, test sets are official.
STUDIED_CLOSELY = ("ner", "sick")
TUNED = ("ner", "sentiment")
TABLES = {
    "table1": "Table 1: with and without ELMo",
    "table2": "Table 2: layers",
    "table3": "Table 3: position",
    "ablations": "Ablations",
    "figure1": "Figure 1: amount of data, number of epochs",
    "finetuning": "Fine-tuning the biLM on the task's text",
    "bilms": "Better biLMs",
}
TASKS_OF = {table: STUDIED_CLOSELY for table in TABLES} | {
    "table1": TABLE1_TASKS,
    "finetuning": TUNED,
}

Choices = Mapping[tuple[str, str], int]  # the settings chosen, by task and side
Planned = tuple[str, str, str, int, int]  # table, task, variant, settings, seed


def placed(task: str, place: str) -> str:
    """The variant with ELMo at a place; `elmo` if it is the task's default place."""
    return "elmo" if STUDIED[task].place == place else f"at-{place}"


def make_runs(choices: Choices) -> list[Run]:
    """The runs whose settings are known, each once, with all tables that use it."""
    tables: dict[tuple[str, str, int, int], set[str]] = {}
    for table, *which in _stages(choices):
        task, variant, tried, seed = which
        tables.setdefault((str(task), str(variant), int(tried), int(seed)), set()).add(table)
    return [
        Run(task, variant, tried, seed, fold, frozenset(names))
        for (task, variant, tried, seed), names in tables.items()
        for fold in STUDIED[task].folds
    ]


def _stages(choices: Choices) -> Iterator[Planned]:
    """All runs of all tables, in the order of execution."""
    yield from _tries(QUICK)
    yield from _stage("table1", QUICK, SIDES, choices, 2, 3)
    yield from _tries(SLOW)
    yield from _tries(("squad",))
    yield from _questions(choices, 1)
    yield from _stage("bilms", STUDIED_CLOSELY, ("baseline", *BILMS), choices, 1, 2, 3)
    yield from _stage("table1", SLOW, SIDES, choices, 2, 3)
    yield from _stage("table1", ("squad",), SIDES, choices, 2)
    yield from _questions(choices, 2, 3)
    yield from _stage("finetuning", TUNED, ("elmo", "tuned"), choices, 1, 2, 3)


def _tries(tasks: Sequence[str]) -> Iterator[Planned]:
    """Every setting of both sides, with seed 1; all tables of a task depend on them."""
    for task in tasks:
        tables = [table for table in TABLES if task in TASKS_OF[table]]
        for tried in range(len(STUDIED[task].tried)):
            for side in SIDES:
                yield from ((table, task, side, tried, 1) for table in tables)


def _stage(
    table: str, tasks: Sequence[str], variants: Sequence[str], choices: Choices, *seeds: int
) -> Iterator[Planned]:
    for seed in seeds:
        for task in tasks:
            for variant in variants:
                chosen = choices.get((task, VARIANTS[variant].side))
                if chosen is not None:
                    yield table, task, variant, chosen, seed


def _questions(choices: Choices, *seeds: int) -> Iterator[Planned]:
    """The runs of Tables 2 and 3, the ablations and Figure 1."""
    for seed in seeds:
        for task in STUDIED_CLOSELY:
            places = [placed(task, place) for place in PLACES]
            yield from _stage("table2", (task,), LAYER_CHOICES, choices, seed)
            yield from _stage("table3", (task,), places, choices, seed)
            yield from _stage("ablations", (task,), ABLATIONS, choices, seed)
            yield from _stage("figure1", (task,), (*SHARE_VARIANTS, *SIDES), choices, seed)
