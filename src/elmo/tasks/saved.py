"""A trained task model in memory, and its folder: task.json, model.safetensors, words.txt.

In: a task, its settings, its network. Out: the folder, written atomically; or the reverse. The biLM
is not part of it, unless it was bundled or fine-tuned, but identified by its hash: a task model
cannot use the vectors of another biLM.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

import elmo
from elmo.api import Elmo
from elmo.errors import CheckpointError
from elmo.files.atomic import atomic_folder
from elmo.models import model_folder
from elmo.models.identity import model_hash
from elmo.models.model_folder import fill, write_tensors
from elmo.settings import Dim, NonNegativeInt, checked, from_mapping, to_mapping
from elmo.tasks import find_task
from elmo.tasks.config import TaskConfig, WordsConfig
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.layer_cache import LayerSource
from elmo.tasks.task import AnyModel, AnyTask, Vocabularies
from elmo.tasks.word_table import WordList, WordTable
from elmo.text.batches import batches_by_length
from elmo.text.lines import LineFormat
from elmo.text.vocabulary import read_list, write_list

FORMAT_VERSION = 2  # 1 had other names for settings, and `inventory` for `vocabularies`
SETTINGS, WEIGHTS, WORDS, BILM = "task.json", "model.safetensors", "words.txt", "bilm"
FIXED_WORDS = "tokens.words.fixed"
WINDOW_SIZE = 512  # examples that are sorted by length at a time


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SavedWords:
    """The entry of task.json for the word vectors."""

    dim: Dim
    n_trained: NonNegativeInt  # the first words of words.txt


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SavedBiLM:
    """The entry of task.json for the biLM."""

    sha256: str
    path: str


@dataclass(frozen=True)
class TrainedTask:
    """A task with its network."""

    task: AnyTask
    config: TaskConfig
    vocabularies: Vocabularies
    model: AnyModel

    def predict(self, examples: Iterable[Any]) -> Iterator[Any]:
        """A prediction for each example of a stream, in order."""
        remaining = iter(examples)
        while some := list(islice(remaining, WINDOW_SIZE)):
            yield from self._predict(some)

    def measure(self, examples: Sequence[Any]) -> dict[str, float]:
        """The scores of the predictions for labeled examples."""
        self.task.check_scorable(examples)
        return self.task.score(examples, list(self.predict(examples)))

    def read(self, path: Path) -> list[Any]:
        """The examples of a data file, for evaluation or prediction."""
        return self.task.read(path, self.config, is_training=False)

    def read_text(
        self, lines: Iterable[str], line_format: LineFormat = "paragraphs"
    ) -> Iterator[Any]:
        """Examples of text without labels."""
        return self.task.read_text(lines, line_format, self.config)

    @torch.inference_mode()
    def _predict(self, examples: Sequence[Any]) -> list[Any]:
        was_training = self.model.training
        self.model.eval()
        lengths = [self.task.length(example) for example in examples]
        predictions: list[Any] = [None] * len(examples)
        with self._hold_layers(examples):
            for batch in batches_by_length(lengths, max_items=self.config.train.batch_size):
                found = self.model.predict([examples[k] for k in batch])
                for k, prediction in zip(batch, found, strict=True):
                    predictions[k] = prediction
        self.model.train(was_training)
        return predictions

    def cache_layers(self, examples: Iterable[Any]) -> None:
        """Compute the biLM's layers of examples, or find them in the cache folder, if there is one.

        A biLM that was fine-tuned has other layers than the cached ones of the original biLM; the
        files are named by its weights.
        """
        source = self.model.tokens.source
        if source is not None and self.model.tokens.is_bilm_frozen:
            source.cache(tokens for each in examples for tokens in self.task.sentences(each))

    def _hold_layers(self, examples: Sequence[Any]) -> AbstractContextManager[None]:
        """Embed all sentences together, which is faster than batch by batch."""
        source = self.model.tokens.source if self.model.tokens.is_bilm_frozen else None
        sentences = (tokens for example in examples for tokens in self.task.sentences(example))
        return nullcontext() if source is None else source.held(sentences)

    def save(self, folder: Path, bilm_path: str | None, scores: dict[str, float]) -> None:
        """Write the folder, or replace the one of an earlier model."""
        words, source = self.model.tokens.words, self.model.tokens.source
        is_tuned = self.model.tokens.bilm is not None
        settings = {
            "format_version": FORMAT_VERSION,
            "version": elmo.__version__,
            "task": self.task.name,
            "config": to_mapping(self.config),
            "vocabularies": self.vocabularies,
            "words": None
            if words is None
            else to_mapping(SavedWords(dim=words.dim, n_trained=len(words.words.trained))),
            "bilm": None
            if source is None
            else {
                "sha256": model_hash(source.elmo.bilm) if is_tuned else source.bilm_sha256,
                "path": bilm_path,
            },
            "scores": scores,
        }
        with atomic_folder(folder, durable=True) as temporary:
            (temporary / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n")
            if words is not None:
                write_list(temporary / WORDS, (*words.words.trained, *words.words.fixed))
            write_tensors(temporary / WEIGHTS, _tensors(self.model))
            if is_tuned and source is not None:
                model_folder.save(temporary / BILM, source.elmo.model)


def is_task_folder(folder: Path) -> bool:
    """Whether a folder holds a trained task model, or the run of one."""
    return (_model_folder(folder) / SETTINGS).is_file()


def open_task(
    folder: Path,
    opened: Elmo | None = None,
    bilm_path: Path | None = None,
    cache: Path | None = None,
) -> TrainedTask:
    """Load a task model; its biLM is `opened`, at `bilm_path`, bundled, or at its saved path.

    `cache` is a folder for the layers of sentences that `TrainedTask.cache_layers` computes.
    """
    folder = _model_folder(folder)
    path = folder / SETTINGS
    settings = _read_settings(path)
    task = find_task(settings["task"])
    config = from_mapping(
        type(task.defaults()), settings["config"], f"{path}: config", accept_old=True
    )
    source = None
    if config.elmo is not None:
        if config.fine_tune is not None:  # its own biLM is saved with it
            opened, bilm_path = None, None
        known = from_mapping(SavedBiLM, settings["bilm"], f"{path}: bilm")
        found = opened or Elmo.load(_find_bilm(folder, known, bilm_path))
        source = LayerSource(found, config.elmo, cache)
        _check_bilm(folder, source, known)
    words = None
    if config.words is not None:
        saved = from_mapping(SavedWords, settings["words"], f"{path}: words")
        words = _read_words(folder / WORDS, saved, config.words)
    tokens = TokenVectors(config, words, source)
    vocabularies = settings["vocabularies"]
    try:
        model = task.build(config, tokens, vocabularies)
    except KeyError as error:
        raise CheckpointError(
            f"{path}: vocabularies has no {error}, expected a list of that name for {task.name}"
        ) from error
    _fill(model, folder / WEIGHTS)
    return TrainedTask(task, config, vocabularies, model.eval())


def _model_folder(folder: Path) -> Path:
    """The folder itself, or the model of a run."""
    return folder / "model" if (folder / "model" / SETTINGS).is_file() else folder


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}), expected the folder of a trained task model"
        ) from error
    version = settings.get("format_version") if isinstance(settings, dict) else None
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: format_version is {version!r}, expected an integer from 1 to "
            f"{FORMAT_VERSION}; a larger one needs a newer version of this package"
        )
    if version == 1 and "inventory" in settings:
        settings["vocabularies"] = settings.pop("inventory")
    _check_settings(settings, path)
    return dict(settings)


def _check_settings(settings: dict[str, Any], path: Path) -> None:
    """Refuse settings with missing entries; groups of settings are checked when they are read."""
    for name in ("task", "config", "vocabularies", "words", "bilm"):
        if name not in settings:
            raise CheckpointError(f"{path}: no {name!r}, expected the settings of a task model")
    if not isinstance(settings["task"], str):
        raise CheckpointError(f"{path}: task is {settings['task']!r}, expected the name of a task")
    vocabularies = settings["vocabularies"]
    lists = list(vocabularies.values()) if isinstance(vocabularies, dict) else [None]
    if not all(
        isinstance(words, list) and all(isinstance(w, str) for w in words) for words in lists
    ):
        raise CheckpointError(
            f"{path}: vocabularies is {str(vocabularies)[:60]}, expected lists of words by name"
        )


def _find_bilm(folder: Path, known: SavedBiLM, given: Path | None) -> Path:
    if given is not None:
        return given
    if (folder / BILM).is_dir():
        return folder / BILM
    return Path(known.path)


def _check_bilm(folder: Path, source: LayerSource, known: SavedBiLM) -> None:
    if source.bilm_sha256 != known.sha256:
        raise CheckpointError(
            f"{folder}: the biLM given has the hash {source.bilm_sha256[:16]}, expected "
            f"{known.sha256[:16]}, with which this task model was trained ({known.path}); "
            "give that one with -m"
        )


def _read_words(path: Path, saved: SavedWords, config: WordsConfig) -> WordTable:
    n_trained = saved.n_trained
    words = [word for word in read_list(path) if word]  # an empty list is read as an empty line
    listed = WordList(tuple(words[:n_trained]), tuple(words[n_trained:]), config.is_lowercased)
    return WordTable(listed, saved.dim)


def _tensors(model: AnyModel) -> dict[str, Tensor]:
    """All tensors of a model, including the fixed word vectors, without the biLM."""
    tensors = model.state_dict()
    everything = {k: v for k, v in tensors.items() if not k.startswith("tokens.bilm.")}
    if model.tokens.words is not None:
        everything[FIXED_WORDS] = model.tokens.words.fixed
    return everything


def _fill(model: AnyModel, path: Path) -> None:
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: not a complete safetensors file ({error})") from error
    if model.tokens.words is not None:
        words = model.tokens.words
        fixed = tensors.pop(FIXED_WORDS, words.fixed[:0])
        if fixed.shape != words.fixed.shape:
            n_trained = len(words.words.trained)
            raise CheckpointError(
                f"{path}: tensor {FIXED_WORDS} has shape {tuple(fixed.shape)}, expected "
                f"{tuple(words.fixed.shape)}, as {WORDS} has {n_trained + len(words.fixed)} words, "
                f"of which {n_trained} are trained"
            )
        words.fixed.copy_(fixed)
    fill(model, tensors, str(path))
