"""Checkpoints of `bilm`'s training, read: the network, and its softmax where its words are given.

In: the folder that bilm trained into, or the prefix of one checkpoint in it; its `options.json`;
its vocabulary. Out: a `Model`. Optimizer states and counters, which stand there too, are left out.
"""

import re
import warnings
from pathlib import Path

import torch
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.models.formats.bilm_hdf5 import check_layout
from elmo.models.formats.bilm_layout import datasets, official_path
from elmo.models.formats.bilm_options import read_settings
from elmo.models.formats.tensor_bundle import TensorBundle
from elmo.models.model_folder import Model, assemble, fill
from elmo.network.config import BiLMConfig
from elmo.network.softmax import FullSoftmax
from elmo.text.vocabulary import Vocabulary

LATEST = "checkpoint"  # names the last one that was saved
SCOPE = "lm/"  # around all variables of the network
OPTIMIZER = re.compile(r"/(Adagrad|Adam|Adam_1|Momentum)$")
SOFTMAX = {"weight": "softmax/W", "bias": "softmax/b"}
WORD_TABLE = "embedding"  # also the softmax's weight, where both share it


def find_prefix(path: Path) -> Path | None:
    """The prefix of the checkpoint that a path names: a folder, a prefix or one of its files."""
    if path.is_dir():
        return _latest(path)
    prefix = path.with_name(re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path.name))
    return prefix if _index(prefix).is_file() else None


def data_file(prefix: Path) -> Path:
    """The first of a checkpoint's data files."""
    return next(iter(sorted(prefix.parent.glob(f"{prefix.name}.data-*"))), _index(prefix))


def read(prefix: Path, options: Path, vocabulary: Path | None) -> Model:
    """Open a checkpoint."""
    config, lexicon = read_settings(options, vocabulary)
    bundle = TensorBundle(prefix)
    names = {
        official_path(name.removeprefix(SCOPE)): name
        for name in bundle.entries
        if name.startswith(SCOPE) and not OPTIMIZER.search(name)
    }
    bilm = assemble(config, _network(bundle, names, config), str(prefix), lexicon)
    if vocabulary is None:
        if SOFTMAX["bias"] in names:
            warnings.warn(
                f"{prefix}: its softmax is left out, as no vocabulary is beside it; name one",
                stacklevel=3,
            )
        return Model(bilm)
    words = Vocabulary.read(vocabulary)
    return Model(bilm, _softmax(bundle, names, words, config), words)


def _network(bundle: TensorBundle, names: dict[str, str], config: BiLMConfig) -> dict[str, Tensor]:
    expected = {dataset.path: dataset for dataset in datasets(config)}
    shapes = {path: bundle.entries[name].shape for path, name in names.items()}
    check_layout(shapes, expected, str(bundle.prefix))
    state = {}
    for path, dataset in expected.items():
        parts = dataset.read(bundle.read(names[path]))
        for name, part in zip(dataset.names, parts, strict=True):
            state[name] = torch.from_numpy(part.copy(order="C"))
    return state


def _softmax(
    bundle: TensorBundle, names: dict[str, str], words: Vocabulary, config: BiLMConfig
) -> FullSoftmax:
    with torch.device("meta"):
        head = FullSoftmax(len(words), config.lstm.projection_dim)
    paths = dict(SOFTMAX)
    if paths["weight"] not in names:
        paths["weight"] = WORD_TABLE
    state = {
        name: torch.from_numpy(bundle.read(names[path]))
        for name, path in paths.items()
        if path in names
    }
    fill(head, state, str(bundle.prefix))
    return head.eval()


def _latest(folder: Path) -> Path | None:
    """The checkpoint that was saved last."""
    record = folder / LATEST
    if record.is_file():
        text = record.read_text(encoding="utf-8", errors="replace")
        named = re.search(r'^model_checkpoint_path: "(.*)"$', text, flags=re.MULTILINE)
        # By the path of the machine that trained it, of which only the last part means anything.
        prefix = folder / Path(named[1] if named else "").name
        if _index(prefix).is_file():
            return prefix
    found = sorted(folder.glob("*.index"))
    if len(found) > 1:
        raise CheckpointError(
            f"{folder}: {len(found)} checkpoints and no file {LATEST!r} that names the last one, "
            f"expected one; name one of them, such as {found[-1].with_suffix('')}"
        )
    return found[0].with_suffix("") if found else None


def _index(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.index")
