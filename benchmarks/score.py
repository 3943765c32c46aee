"""Speed of scoring: the log-sum-exp kernel against PyTorch in blocks of words, in the same run.

Both score the same sentences with the same model, in turns. Stores CPU times and the largest
difference of log-probabilities.
usage: python -m benchmarks.score [--text FILE] [--sentences N] [--rounds N] [--json FILE]
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.embed import TEXT
from benchmarks.measured import conditions, in_turns, store
from elmo import Elmo
from elmo.files.text_files import read_blocks
from elmo.inference.scoring import Scorer
from elmo.models.model_folder import Model
from elmo.network.softmax import FullSoftmax
from elmo.text.tokenizer import split_text


class InBlocks(FullSoftmax):
    """The same head without its kernel."""

    def log_probs_of(self, rows: Sequence[Tensor], ids: Tensor, n_skipped: int) -> None:
        """Return None, so that PyTorch computes them."""


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=TEXT, help="raw text, plain, .gz or .xz")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    lines = chain.from_iterable(islice(read_blocks([settings.text]), 40))
    split = (each.tokens for line in lines for each in split_text(line))
    sentences = list(islice(split, settings.sentences))
    before = conditions()
    elmo = Elmo.load()
    head, vocabulary = elmo.model.head, elmo.model.vocabulary
    assert head is not None
    assert vocabulary is not None
    plain = InBlocks(len(vocabulary), elmo.bilm.config.lstm.projection_dim)
    plain.load_state_dict(head.state_dict())
    scorers = {
        "kernel": elmo.scorer,
        "blocks": Scorer(elmo.embedder, Model(elmo.bilm, plain, vocabulary)),
    }
    scored = [scorer.score(sentences) for scorer in scorers.values()]
    difference = max(
        float(np.abs(one.log_probs[context] - other.log_probs[context]).max())
        for one, other in zip(*scored, strict=True)
        for context in one.log_probs
    )
    found = {"n_tokens": sum(map(len, sentences)), "largest_difference": difference}
    for name, texts in (("batches", [sentences]), ("single", [[each] for each in sentences[:20]])):
        jobs = {way: partial(seconds, scorer, texts) for way, scorer in scorers.items()}
        n_tokens = sum(len(words) for text in texts for words in text)
        result = {"n_tokens": n_tokens, "seconds": in_turns(jobs, settings.rounds)}
        store(settings.json, name, {"environment": before, **found, **result})


def seconds(scorer: Scorer, texts: list[list[list[str]]]) -> float:
    """CPU time of this thread, or of all threads if there are several."""
    now = time.thread_time if torch.get_num_threads() == 1 else time.process_time
    started_at = now()
    for sentences in texts:
        scorer.score(sentences)
    return now() - started_at


if __name__ == "__main__":
    main()
