"""Describe a model file.

In: the path of a model in any format. Out: a flat mapping of names to plain values.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo.models import formats
from elmo.models.identity import file_hash
from elmo.network import kernels
from elmo.settings import to_mapping


def describe(
    path: Path, options: Path | None = None, vocabulary: Path | None = None
) -> dict[str, Any]:
    """Format, size and settings of a model; `sha256` is the hash of its weights file or archive."""
    source = formats.find(path, options, vocabulary)
    model = formats.read(path, options, vocabulary)
    config = model.bilm.config
    return {
        "path": str(path),
        "kind": source.kind,
        "weights": source.weights.name,
        "archive": None if source.archive is None else source.archive.name,
        "note": source.note,
        "sha256": file_hash(source.file),
        "bytes": source.file.stat().st_size,
        "n_parameters": model.bilm.n_parameters,
        "n_layers": config.lstm.n_layers + 1,
        "output_dim": config.output_dim,
        "n_output_words": None if model.vocabulary is None else len(model.vocabulary),
        "kernels": kernels.describe(),
        "mixes": [mix.name for mix in model.mixes],
        "alignment": sorted(model.alignment),
        **dict(_flatten(to_mapping(config), "")),
    }


def _flatten(mapping: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
