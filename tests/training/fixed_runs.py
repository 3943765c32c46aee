"""Two fixed tiny runs; fixed_runs.json has their losses and scores.

test_fixed_runs.py checks that a change does not affect these numbers. After a change that is meant
to affect them, write the file again:

python -m tests.training.fixed_runs
"""

import json
import tempfile
from pathlib import Path

import torch

from elmo.pretraining.corpus import build_cache
from elmo.pretraining.learner import Texts
from elmo.pretraining.pretrain import pretrain_model
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from elmo.training.metrics import read_metrics
from tests.pretraining.tiny_text import settings, write_text
from tests.tasks.conftest import train_tiny, write_bilm
from tests.tasks.tiny_tasks import TINY_TASKS

RECORD = Path(__file__).with_suffix(".json")
NER_SETS = ("train.n_epochs=4", "train.log_every=1", "model.dropout=0.3", "elmo.dropout=0.3")


def run_pretraining(folder):
    """Losses of 20 steps and held-out perplexities."""
    write_text(folder / "train.txt", 200, seed=1)
    write_text(folder / "heldout.txt", 40, seed=2)
    texts = Texts(
        *(
            build_cache([folder / f"{name}.txt"], folder / "cache", "tokens")
            for name in ("train", "heldout")
        )
    )
    alone = Processes(0, 1, torch.device("cpu"))
    pretrain_model(settings(), texts, folder / "run", Budget(max_steps=20), alone)
    return measured(folder / "run")


def run_task(folder):
    """Losses and dev scores of four epochs of named entity recognition."""
    bilm = write_bilm(folder / "bilm", seed=1)
    train_tiny(TINY_TASKS[0], NER_SETS, folder, "run", bilm=bilm)
    return measured(folder / "run")


def measured(run):
    return [
        {"step": line["step"], name: value}
        for line in read_metrics(run / "metrics.jsonl")
        for name, value in line.items()
        if name in ("loss", "heldout_forward", "heldout_backward", "dev_f1")
    ]


RUNS = {"pretraining": run_pretraining, "ner": run_task}

if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {}
    for run_name, run in RUNS.items():
        with tempfile.TemporaryDirectory() as temporary:
            found[run_name] = run(Path(temporary))
    RECORD.write_text(json.dumps(found, indent=1) + "\n")
