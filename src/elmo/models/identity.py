"""Hashes that show whether files belong together.

In: a network, or a file. Out: a SHA-256 in hexadecimal digits. Caches, indexes, shards, task models
and fine-tuning runs record the hash of the model that they were created with.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

from elmo.models.model_folder import Model
from elmo.network import kernels
from elmo.network.bilm import BiLM
from elmo.settings import to_mapping
from elmo.text.vocabulary import Vocabulary


def model_hash(
    bilm: BiLM, head: nn.Module | None = None, vocabulary: Vocabulary | None = None
) -> str:
    """The hash of everything that a biLM's vectors depend on: settings, word lists and weights.

    It does not depend on the file format that the biLM was read from. A head and its output
    vocabulary are included if given.
    """
    lexicon = bilm.word_encoder.lexicon
    lists = (lexicon.words.words if lexicon.words else (), lexicon.characters or ())
    digest = hashlib.sha256(json.dumps(to_mapping(bilm.config), sort_keys=True).encode())
    digest.update(json.dumps(lists).encode())
    _add_weights(digest, bilm)
    if head is not None:
        digest.update(json.dumps(vocabulary.words if vocabulary else ()).encode())
        _add_weights(digest, head)
    return digest.hexdigest()


def vectors_hash(model: Model) -> str:
    """The hash of everything that the vectors of `Elmo.embed` depend on, including alignments."""
    bilm_hash = model_hash(model.bilm)
    if not model.alignment:
        return bilm_hash
    digest = hashlib.sha256(bilm_hash.encode())
    for layer, matrix in sorted(model.alignment.items()):
        digest.update(f"alignment {layer}".encode())
        digest.update(np.ascontiguousarray(matrix).data)
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """The hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add_weights(digest: "hashlib._Hash", module: nn.Module) -> None:
    # Not by `state_dict`, which would unpack the weights permanently: twice the memory.
    for name, tensor in kernels.sorted_parameters(module):
        digest.update(name.encode())
        # As bytes: numpy has no bfloat16.
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
