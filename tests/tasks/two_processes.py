"""Train every tiny task, in each of the processes that torchrun starts.

usage: torchrun --nproc-per-node=2 -m tests.tasks.two_processes BILM OUT
"""

import sys
from pathlib import Path

from elmo.training.distributed import join_processes
from tests.tasks.conftest import train_tiny
from tests.tasks.tiny_tasks import TINY_TASKS

# Five examples and two processes: batches are divided unevenly.
SETS = (
    "train.n_epochs=3",
    "train.log_every=1",
    "train.batch_size=5",
    "elmo.place=both",
    "optimizer.learning_rate=0.001",
)


def train_all(bilm, out, processes):
    for tiny in TINY_TASKS:
        folder = out / tiny.name
        with processes.first_before_others():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / tiny.file_name).write_text(tiny.content, encoding="utf-8")
        train_tiny(tiny, SETS, folder, "run", bilm=bilm, processes=processes)


if __name__ == "__main__":
    joined = join_processes()
    train_all(Path(sys.argv[1]), Path(sys.argv[2]), joined)
    joined.shutdown()
