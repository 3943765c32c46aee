"""AllenNLP's biLM as a worker: `python allennlp_worker.py MODEL SENTENCES`.

State is reset before every batch, so that its vectors can be compared with stateless ones.
"""

import functools
import sys
import warnings
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

warnings.filterwarnings("ignore")


class _Hollow(ModuleType):
    """A stub of torchvision, which AllenNLP imports for its image models; ELMo does not use it."""

    __path__: list[str] = []  # noqa: RUF012 - a package to the import system

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _HollowTorchvision:
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        is_wanted = name.partition(".")[0] == "torchvision"
        return ModuleSpec(name, self) if is_wanted else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Hollow(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.insert(0, _HollowTorchvision())  # type: ignore[arg-type]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids  # noqa: E402
from protocol import serve  # noqa: E402

model = Path(sys.argv[1])
sentences = [line.split() for line in Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()]
bilm = _ElmoBiLm(str(model / "options.json"), str(model / "weights.hdf5")).eval()


vocabulary = {word: k for k, word in enumerate(sorted({w for s in sentences for w in s}), start=1)}


@functools.cache
def fill_cache() -> None:
    """Compute the token vectors of all words, as with `vocab_to_cache`; index 0 is padding."""
    bilm.create_cached_cnn_embeddings(["", *vocabulary])


def run(batch: list[list[str]], is_cached: bool) -> list[torch.Tensor]:
    """The layers of a batch."""
    bilm._elmo_lstm._states = None
    if not is_cached:
        return bilm(batch_to_ids(batch))["activations"]
    words = [torch.tensor([vocabulary[word] for word in words]) for words in batch]
    return bilm(None, torch.nn.utils.rnn.pad_sequence(words, batch_first=True))["activations"]


@torch.no_grad()
def embed(
    batch_size: int,
    n_sentences: int | None = None,
    is_sorted: bool = False,
    is_cached: bool = False,
    out: str | None = None,
) -> None:
    """Embed all sentences and keep the arrays, as a user would."""
    if is_cached:
        fill_cache()
    chosen = sentences[:n_sentences]
    order = (
        sorted(range(len(chosen)), key=lambda k: len(chosen[k]))
        if is_sorted
        else [*range(len(chosen))]
    )
    arrays: list[np.ndarray | None] = [None] * len(chosen)
    for start in range(0, len(chosen), batch_size):
        batch = order[start : start + batch_size]
        layers = run([chosen[k] for k in batch], is_cached)
        for row, k in enumerate(batch):
            arrays[k] = np.stack([x[row, 1 : len(chosen[k]) + 1].numpy() for x in layers])
    if out:
        np.savez(out, *arrays)


if __name__ == "__main__":
    serve({"embed": embed})
