"""A tiny text and settings to pre-train on it in seconds."""

import random

from elmo.pretraining.config import PretrainConfig, read_config

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "off",
    "mat",
    "hill",
    "and",
    "then",
    "it",
    "was",
    "over",
    "soon",
]
SETTINGS = (
    "model.lstm.dim=12",
    "model.lstm.projection_dim=8",
    "stream.batch_size=4",
    "stream.bptt_length=6",
    "head.n_negatives=6",
    "vocabulary.min_count=1",
    "optimizer.n_warmup_steps=3",
    "train.log_every=1",
    "train.save_every=4",
    "train.evaluate_every=5",
    "train.n_evaluation_sentences=20",
)


def settings(*more) -> PretrainConfig:
    return read_config("tiny", None, [*SETTINGS, *more])


def write_text(path, n_sentences, seed):
    """Write sentences of random words, five to a document."""
    draw = random.Random(seed)
    lines = []
    for number in range(n_sentences):
        lines.append(" ".join(draw.choices(WORDS, k=draw.randint(2, 9))))
        lines.extend([""] * (number % 5 == 4))
    path.write_text("\n".join(lines) + "\n")
