"""TensorFlow's files: checkpoints of `bilm`'s training, and TF-Hub modules.

In: the training folder of bilm, the prefix of one checkpoint in it, or the folder of a module; its
`options.json`, which modules do not have; its vocabulary. Out: a `Model`, with the softmax if its
words are given, and a module's learned sum of the layers as a mix. Optimizer states, counters and
LSTM states in the files are ignored.
"""

import glob
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.models.formats.bilm_layout import infer_config, official_path, read_network
from elmo.models.formats.bilm_options import read_settings
from elmo.models.formats.sources import AnyPath, files_like
from elmo.models.formats.tensor_bundle import TensorBundle
from elmo.models.formats.word_list import WordList
from elmo.models.model_folder import Mix, Model, assemble, fill
from elmo.network.config import BiLMConfig
from elmo.network.softmax import FullSoftmax
from elmo.text.word_encoder import Lexicon

LATEST = "checkpoint"  # the file that names the latest checkpoint
TRAINING, MODULE = "lm/", "bilm/"  # the scopes of the network's variables
# Variables of the optimizer, and LSTM states that are stored in a module.
OTHER_VARIABLES = re.compile(r"(/(Adagrad|Adam|Adam_1|Momentum)|/Variable(_\d+)?)$")
SOFTMAX = {"weight": "softmax/W", "bias": "softmax/b"}
WORD_TABLE = "embedding"  # also the softmax's weight, if both share it
# Variables of a module's learned sum, as named by Google and DeepPavlov.
MIX_WEIGHTS = re.compile(r"aggregation/(weights|\w+_ELMo_W)")
MIX_SCALE = re.compile(r"aggregation/(scaling|\w+_ELMo_gamma)")


def find_prefix(path: AnyPath) -> AnyPath | None:
    """The prefix of the checkpoint that a path names: a folder, a prefix or one of its files."""
    if path.is_dir():
        in_module = path / "variables" / "variables"
        return in_module if _index(in_module).is_file() else _latest(path)
    prefix = path.with_name(re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path.name))
    return prefix if _index(prefix).is_file() else None


def data_file(prefix: AnyPath) -> AnyPath:
    """The first of a checkpoint's data files, or its index if there is none."""
    return next(
        iter(files_like(prefix.parent, f"{glob.escape(prefix.name)}.data-*")), _index(prefix)
    )


def is_module(prefix: AnyPath) -> bool:
    """Whether a checkpoint belongs to a TF-Hub module."""
    names = TensorBundle(prefix).entries
    return not any(n.startswith(TRAINING) for n in names) and any(
        n.startswith(MODULE) for n in names
    )


def read(prefix: AnyPath, options: AnyPath | None, vocabulary: AnyPath | None) -> Model:
    bundle = TensorBundle(prefix)
    scope = MODULE if is_module(prefix) else TRAINING
    names = {
        official_path(name.removeprefix(scope)): name
        for name in bundle.entries
        if name.startswith(scope) and not OTHER_VARIABLES.search(name)
    }
    shapes = {path: bundle.entries[name].shape for path, name in names.items()}
    words = None
    if options is None:
        config = infer_config(shapes, str(prefix))
    else:
        config, words = read_settings(options, vocabulary)

    def read_arrays(paths: Iterable[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        return ((path, bundle.read(names[path])) for path in paths)

    config, state = read_network(config, shapes, read_arrays, str(prefix))
    lexicon = Lexicon()
    if config.lexicon is not None and words is not None:
        lexicon = Lexicon(words.vocabulary)
        state["word_table.weight"] = words.reorder(state["word_table.weight"], str(prefix))
    bilm = assemble(config, state, str(prefix), lexicon)
    mixes = tuple(_mixes(bundle))
    if words is None:
        if SOFTMAX["bias"] in names:
            warnings.warn(
                f"{prefix}: its softmax is not read, as there is no vocabulary beside it",
                stacklevel=3,
            )
        return Model(bilm, mixes=mixes)
    return Model(bilm, _softmax(bundle, names, words, config), words.vocabulary, mixes)


def _softmax(
    bundle: TensorBundle, names: dict[str, str], words: WordList, config: BiLMConfig
) -> FullSoftmax:
    where = str(bundle.prefix)
    with torch.device("meta"):
        head = FullSoftmax(len(words.vocabulary), config.lstm.projection_dim)
    paths = dict(SOFTMAX)
    if paths["weight"] not in names:
        paths["weight"] = WORD_TABLE
    state: dict[str, Tensor] = {
        name: words.reorder(torch.from_numpy(bundle.read(names[path])), f"{where}: {path}")
        for name, path in paths.items()
        if path in names
    }
    fill(head, state, where)
    return head.eval()


def _mixes(bundle: TensorBundle) -> Iterator[Mix]:
    weights = [name for name in bundle.entries if MIX_WEIGHTS.fullmatch(name)]
    scales = [name for name in bundle.entries if MIX_SCALE.fullmatch(name)]
    if weights and scales:
        (gamma,) = bundle.read(scales[0]).reshape(-1).tolist()
        values = bundle.read(weights[0]).reshape(-1).tolist()
        yield Mix(name="aggregation", weights=tuple(values), gamma=gamma)


def _latest(folder: AnyPath) -> AnyPath | None:
    """The prefix of the latest checkpoint in a folder; None if there is none."""
    record = folder / LATEST
    if record.is_file():
        text = record.read_bytes().decode("utf-8", errors="replace")
        named = re.search(r'^model_checkpoint_path: "(.*)"$', text, flags=re.MULTILINE)
        # A path on the machine that trained it, of which only the last part is used.
        prefix = folder / Path(named[1] if named else "none").name
        if _index(prefix).is_file():
            return prefix
    found = files_like(folder, "*.index")
    prefixes = [path.with_name(path.name.removesuffix(".index")) for path in found]
    if len(found) > 1:
        raise CheckpointError(
            f"{folder}: {len(found)} checkpoints and no file {LATEST!r} that names the last one, "
            f"expected one; give one of them, such as {prefixes[-1]}"
        )
    return prefixes[0] if prefixes else None


def _index(prefix: AnyPath) -> AnyPath:
    return prefix.with_name(f"{prefix.name}.index")
