"""Perplexity of ways to combine the word probabilities of both directions, on held-out text.

usage: python -m benchmarks.combine_directions MODEL TEXT [--sentences 500]
Each way defines a distribution over all words except the sentence markers at every position. Lower
perplexity is better.
`prior` is the log-uniform distribution of ranks, which approximates word frequencies.
"""

import argparse
import math
from collections import defaultdict
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from elmo import Elmo
from elmo.files.text_files import read_lines
from elmo.inference.scoring import predict
from elmo.text.tokenizer import split_text
from elmo.text.vocabulary import BEGIN, END

SENTENCES_AT_ONCE = 16


def ways(forward: Tensor, backward: Tensor) -> dict[str, Tensor]:
    """Unnormalized log-probabilities (N, V) from those of both directions."""
    ranks = torch.arange(forward.shape[1])
    prior = ((ranks + 2) / (ranks + 1)).log().log()
    return {
        "forward": forward,
        "backward": backward,
        "mean of probabilities": torch.logaddexp(forward, backward),
        "mean of log-probabilities": (forward + backward) / 2,
        "product": forward + backward,
        "product / prior": forward + backward - prior,
        "product^0.8 / prior^0.5": 0.8 * (forward + backward) - 0.5 * prior,
    }


def main() -> None:
    """Print the perplexity of each way, best first."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=500)
    chosen = parser.parse_args()
    elmo = Elmo.load(chosen.model)
    head, vocabulary = elmo.model.head, elmo.model.vocabulary
    if head is None or vocabulary is None:
        raise SystemExit(f"{chosen.model} has no softmax")
    every = (s.tokens for line in read_lines(chosen.text) for s in split_text(line))
    sentences = list(islice(every, chosen.sentences))
    nats: dict[str, float] = defaultdict(float)
    n_words = sum(map(len, sentences))
    for first in range(0, len(sentences), SENTENCES_AT_ONCE):
        some = sentences[first : first + SENTENCES_AT_ONCE]
        ids = torch.from_numpy(vocabulary.ids([word for tokens in some for word in tokens]))
        with torch.inference_mode():
            rows = predict(elmo.embedder, some).words()
            for name, words in ways(*(head.log_probs(hidden) for hidden in rows)).items():
                allowed = words.clone()
                allowed[:, [BEGIN, END]] = -torch.inf
                found = allowed.log_softmax(-1).gather(1, ids[:, None])
                nats[name] -= float(found.sum(dtype=torch.float64))
    for name, total in sorted(nats.items(), key=lambda item: item[1]):
        print(f"{math.exp(total / n_words):10.1f}  {name}")


if __name__ == "__main__":
    main()
