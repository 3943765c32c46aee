"""Pre-training: from text to the folder of a run, which can be stopped and resumed.

In: settings, texts, an output folder, a budget. Out: the folder of the run, with its model, and the
model's held-out perplexity.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from elmo.errors import DataError
from elmo.files.text_files import find_text_files
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.softmax import build_head
from elmo.pretraining.config import PretrainConfig
from elmo.pretraining.corpus import build_cache
from elmo.pretraining.learner import PretrainLearner, Texts
from elmo.pretraining.perplexity import Perplexity, sample_sentences
from elmo.settings import to_mapping
from elmo.text.lines import LineFormat
from elmo.text.vocabulary import UNKNOWN, Vocabulary
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from elmo.training.loop import TrainingLoop
from elmo.training.run_folder import RunFolder


def check_run_folder(out: Path, config: PretrainConfig) -> None:
    """Refuse the folder of another run or of other files, before texts are cached in it."""
    RunFolder(out).check({"config": to_mapping(config)}, PretrainConfig)


def open_texts(
    train: str | Sequence[str],
    heldout: str | Sequence[str],
    cache: Path,
    processes: Processes,
    lines: LineFormat = "paragraphs",
) -> Texts:
    """Split the texts at paths or globs into words, unless they are cached."""
    patterns = [[texts] if isinstance(texts, str) else texts for texts in (train, heldout)]
    with processes.first_before_others():
        texts = Texts(*(build_cache(find_text_files(*some), cache, lines) for some in patterns))
    if texts.train.counts.sha256 == texts.heldout.counts.sha256 and processes.is_first:
        warnings.warn(
            "the held-out text is the training text; its perplexity does not show overfitting",
            stacklevel=2,
        )
    return texts


def pretrain_model(
    config: PretrainConfig, texts: Texts, out: Path, budget: Budget, processes: Processes
) -> Perplexity | None:
    """Train a model, or resume the run in `out`; return its perplexity, None if stopped."""
    run = RunFolder(out)
    identity = {
        "config": to_mapping(config),
        "train_sha256": texts.train.counts.sha256,
        "heldout_sha256": texts.heldout.counts.sha256,
    }
    with run.claim(identity, PretrainConfig) if processes.is_first else nullcontext():
        torch.manual_seed(config.train.seed)
        model = add_head(BiLM(config.model), texts, config)
        return fit(model, texts, config, run, budget, processes)


def fit(
    model: Model,
    texts: Texts,
    config: PretrainConfig,
    run: RunFolder,
    budget: Budget,
    processes: Processes,
) -> Perplexity | None:
    """Train a model in the folder of a run that the caller has claimed."""
    learner = PretrainLearner(model, texts, config, processes)
    result = TrainingLoop(learner, run, budget, processes).fit()
    return None if result is None else Perplexity(**result["heldout"])


def add_head(bilm: BiLM, texts: Texts, config: PretrainConfig) -> Model:
    """A biLM with an untrained head for the words of a text."""
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
            "expected text of the same kind, or a lower vocabulary.min_count"
        )
