"""Pre-training: from text to a model folder, stopped and resumed at will.

In: settings, texts, an output folder, a budget. Out: the folder of the run, with its model.
"""

from contextlib import nullcontext
from pathlib import Path

import torch

from elmo.errors import DataError
from elmo.files.text_files import find_shards
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.softmax import build_head
from elmo.pretraining.config import PretrainConfig
from elmo.pretraining.corpus import build_cache
from elmo.pretraining.perplexity import sample_sentences
from elmo.pretraining.trainer import Result, Texts, Trainer
from elmo.settings import to_mapping
from elmo.text.lines import LineFormat
from elmo.text.vocabulary import UNKNOWN, Vocabulary
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from elmo.training.run_folder import RunFolder


def open_texts(
    train: str,
    heldout: str,
    cache: Path,
    processes: Processes,
    lines: LineFormat = "paragraphs",
) -> Texts:
    """Split the texts of two globs into words, unless that was done before."""
    if not processes.is_first:
        processes.wait()  # the first process splits for all
    texts = Texts(
        build_cache(find_shards(train), cache, lines),
        build_cache(find_shards(heldout), cache, lines),
    )
    if processes.is_first:
        processes.wait()
    return texts


def pretrain_model(
    config: PretrainConfig, texts: Texts, out: Path, budget: Budget, processes: Processes
) -> Result:
    """Train a model on a corpus, or go on with the run that `out` holds."""
    run = RunFolder(out)
    identity = {
        "config": to_mapping(config),
        "train_sha256": texts.train.counts.sha256,
        "heldout_sha256": texts.heldout.counts.sha256,
    }
    with run.claim(identity, PretrainConfig) if processes.is_first else nullcontext():
        torch.manual_seed(config.train.seed)
        model = add_head(BiLM(config.model), texts, config)
        return Trainer(model, texts, config, run, processes, budget).fit()


def add_head(bilm: BiLM, texts: Texts, config: PretrainConfig) -> Model:
    """A model that predicts the words of a text, from start values."""
    vocabulary = texts.train.vocabulary(config.vocabulary.max_size, config.vocabulary.min_count)
    _check_overlap(vocabulary, texts)
    projection_dim = bilm.config.lstm.projection_dim
    head = build_head(config.head.kind, len(vocabulary), projection_dim, config.head.n_negatives)
    if config.head.init_bias_from_frequencies:
        head.start_from(texts.train.frequencies(vocabulary))
    return Model(bilm, head, vocabulary)


def _check_overlap(vocabulary: Vocabulary, texts: Texts) -> None:
    words = [word for sentence in sample_sentences(texts.heldout, 1000) for word in sentence]
    if (vocabulary.ids(words) == UNKNOWN).all():
        raise DataError(
            f"none of {len(words)} held-out words is among the {len(vocabulary)} words to predict; "
            "expected text of the same kind; name other files, or set vocabulary.min_count lower"
        )
