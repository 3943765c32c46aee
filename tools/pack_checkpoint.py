"""Pack the checkpoint of a pre-training run into a file small enough to store with the code.

    python -m tools.pack_checkpoint pack RUN FILE
    python -m tools.pack_checkpoint unpack FILE RUN

A run of many hours may have to move to another machine, and its checkpoint takes fourteen bytes per
weight. A packed one resumes the same run at the same step and position in the text, but not bit for
bit: weights are rounded to 127 levels per row and the recurrent state to bfloat16, moving averages
restart from the weights, Muon's momentum and AdamW's first moment of the output words restart from
zero, and the second moment of an output word is reduced to its mean. Averages are not stored in
place of the weights: they lag behind the weights, so the run would be set back.
In: the folder of a run. Out: a `.safetensors.xz` file, or such a folder.
"""

import argparse
import json
import lzma
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from elmo.files.atomic import atomic_write, write_text
from elmo.training.checkpoint import TrainingCheckpoint, load_newest, save_checkpoint
from elmo.training.run_folder import RunFolder

RECORD = "run.json"
MAX_LEVEL = 63
AVERAGE = "average."  # prefix of the name of a moving average
MIN_ROUNDED = 50_000  # elements of a matrix; smaller ones are stored unchanged
# Suffixes of names, which say how a tensor is stored.
LEVELS, SCALE, ROW_MEAN, ZERO, WEIGHT = "|levels", "|scale", "|row-mean", "|zero", "|weight"


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("pack", "unpack"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    {"pack": pack, "unpack": unpack}[options.verb](options.source, options.target)


def pack(run: Path, file: Path) -> None:
    """Write the newest checkpoint of a run, its settings and its metrics to one file."""
    folder = RunFolder(run)
    checkpoint = load_newest(folder.checkpoints)
    if checkpoint is None:
        raise SystemExit(f"{folder.checkpoints}: no checkpoint")
    record = (run / RECORD).read_text(encoding="utf-8")
    if json.loads(record)["config"]["train"]["patience"] is not None:
        raise SystemExit(f"{run}: train.patience is set, expected none: models are not packed")
    texts = {
        "step": str(checkpoint.step),
        "numbers": json.dumps(checkpoint.numbers),
        "record": record,
        "metrics": folder.metrics.read_text(encoding="utf-8"),
    }
    packed = lzma.compress(save(pack_tensors(checkpoint.tensors), texts), preset=9)
    with atomic_write(file) as temporary:
        temporary.write_bytes(packed)


def unpack(file: Path, run: Path) -> None:
    """Write a new run folder that resumes at the packed step."""
    folder = RunFolder(run)
    if folder.path.exists():
        raise SystemExit(f"{run}: already exists, expected the path of a new folder")
    folder.path.mkdir(parents=True)
    plain = folder.path / "packed.safetensors"
    plain.write_bytes(lzma.decompress(file.read_bytes()))
    with safe_open(plain, "pt") as opened:
        texts = opened.metadata()
        stored = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    plain.unlink()
    write_text(run / RECORD, texts["record"])
    write_text(folder.metrics, texts["metrics"])
    step, numbers = int(texts["step"]), json.loads(texts["numbers"])
    checkpoint = TrainingCheckpoint(step, unpack_tensors(stored), numbers)
    save_checkpoint(folder.checkpoints, checkpoint)


def pack_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the tensors of a checkpoint to those that are stored."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.startswith(AVERAGE):
            stored[name + WEIGHT] = torch.empty(0)
        elif name.startswith("state."):
            stored[name] = tensor.bfloat16()
        elif tensor.ndim != 2 or tensor.numel() < MIN_ROUNDED:
            stored[name] = tensor
        elif name.endswith((".momentum", ".mean", ".exp_avg")):
            stored[name + ZERO] = torch.tensor(tensor.shape)
        elif name.endswith((".square", ".exp_avg_sq", ".sum")):
            stored[name + ROW_MEAN] = tensor.mean(1)
        else:
            scale = tensor.abs().amax(1, keepdim=True).clamp_(min=1e-30) / MAX_LEVEL
            stored[name + LEVELS] = (tensor / scale).round().to(torch.int8)
            stored[name + SCALE] = scale
    return stored


def unpack_tensors(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Restore the tensors of a checkpoint, some of them rounded."""
    widths = {
        name.removesuffix(LEVELS): levels.shape[1]
        for name, levels in stored.items()
        if name.endswith(LEVELS)
    }
    tensors: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        plain, _, kind = name.partition("|")
        if not kind:
            tensors[plain] = tensor.float() if tensor.is_floating_point() else tensor
        elif name.endswith(ZERO):
            tensors[plain] = torch.zeros(tensor.tolist())
        elif name.endswith(ROW_MEAN):
            width = widths[plain.removeprefix("optimizer.").rpartition(".")[0]]
            tensors[plain] = tensor[:, None].expand(-1, width).contiguous()
        elif name.endswith(LEVELS):
            tensors[plain] = tensor.float() * stored[plain + SCALE]
    averaged = [name.removesuffix(WEIGHT) for name in stored if name.endswith(WEIGHT)]
    return tensors | {name: tensors[name.removeprefix(AVERAGE)].clone() for name in averaged}


if __name__ == "__main__":
    main()
