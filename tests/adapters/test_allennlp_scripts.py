"""Scripts that import AllenNLP run unchanged; each follows the usage of a published project."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest

from elmo.api import Elmo
from tests.conftest import TINY_OPTIONS
from tests.random_models import write_files

PROTEINS = {"P1": "MKTAYIAK", "P2": "MALLHS"}

# Import paths of old and new AllenNLP versions, for one model.
NAMES = """
import sys
from allennlp.commands.elmo import ElmoEmbedder
from allennlp.modules.elmo import Elmo, _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries
import allennlp.modules.elmo

options, weights = sys.argv[1:]
layers = ElmoEmbedder(options_file=options, weight_file=weights).embed_sentence(["a", "bow"])
bilm = _ElmoBiLm(options, weights)
output = bilm(batch_to_ids([["a", "bow"]]))
top, mask = remove_sentence_boundaries(output["activations"][-1], output["mask"])
assert top.shape == (1, 2, layers.shape[-1]) and bool(mask.all())
assert abs(top[0].detach().numpy() - layers[-1]).max() < 1e-6
print(allennlp.modules.elmo.Elmo is Elmo, layers.shape)
"""

# SeqVec: a FASTA file, batches of sorted sequences, a sum of the layers, and an HDF5 file.
SEQVEC = """
import sys
from pathlib import Path
import h5py
import torch
from allennlp.commands.elmo import ElmoEmbedder

folder, fasta, out = map(Path, sys.argv[1:])
sequences, name = {}, None
for line in fasta.read_text().splitlines():
    if line.startswith(">"):
        name = line[1:]
        sequences[name] = ""
    else:
        sequences[name] += line
embedder = ElmoEmbedder(
    weight_file=folder / "weights.hdf5", options_file=folder / "options.json", cuda_device=-1
)
embedder.embed_sentence(list("MKT"))  # SeqVec warms the state up
with h5py.File(out, "w") as file:
    names = sorted(sequences, key=lambda name: len(sequences[name]))
    found = embedder.embed_batch([list(sequences[name]) for name in names])
    for name, layers in zip(names, found):
        file.create_dataset(name, data=torch.tensor(layers).sum(dim=0).numpy())
"""

# catELMo: one sequence at a time, one vector for each.
CATELMO = """
import json, sys
import torch
from allennlp.commands.elmo import ElmoEmbedder

options, weights, out = sys.argv[1:4]
embedder = ElmoEmbedder(options, weights, cuda_device=-1)
vectors = []
for sequence in sys.argv[4:]:
    layers = torch.tensor(embedder.embed_sentence(list(sequence)))
    vectors.append(layers.sum(dim=0).mean(dim=0).tolist())
open(out, "w").write(json.dumps(vectors))
"""

# EpiDope: all sequences through `embed_sentences`, layers kept.
EPIDOPE = """
import pickle, sys
from allennlp.commands.elmo import ElmoEmbedder

options, weights, out = sys.argv[1:4]
embedder = ElmoEmbedder(options_file=options, weight_file=weights, cuda_device=-1)
layers = list(embedder.embed_sentences([list(each) for each in sys.argv[4:]], batch_size=2))
pickle.dump([each.mean(axis=0) for each in layers], open(out, "wb"))
"""

# LAMA: the biLM with its markers, and the released softmax above its top layer.
LAMA = """
import json, sys
import h5py
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

folder, out = sys.argv[1:3]
tokens = sys.argv[3:]
words = [line.strip() for line in open(folder + "/vocab.txt")]
dim = json.load(open(folder + "/options.json"))["lstm"]["projection_dim"]
bilm = _ElmoBiLm(
    options_file=folder + "/options.json", weight_file=folder + "/weights.hdf5", vocab_to_cache=None
)
with h5py.File(folder + "/softmax.hdf5", "r") as file:
    weight, bias = torch.from_numpy(file["softmax"]["W"][...]), file["softmax"]["b"][...]
head = torch.nn.Linear(dim, len(words))
head.weight, head.bias = torch.nn.Parameter(weight), torch.nn.Parameter(torch.from_numpy(bias))
with torch.no_grad():
    top = bilm(batch_to_ids([tokens]).to("cpu"))["activations"][-1].cpu()
    forward, backward = torch.split(top, dim, dim=-1)
    before = torch.log_softmax(head(forward), -1)[0, :-2]
    after = torch.log_softmax(head(backward), -1)[0, 2:]
ids = torch.tensor([words.index(token) for token in tokens])[:, None]
chosen = {"forward": before.gather(1, ids), "backward": after.gather(1, ids)}
json.dump({name: found[:, 0].tolist() for name, found in chosen.items()}, open(out, "w"))
"""


@pytest.fixture
def run_script(tmp_path, tiny_weights):
    """Write a model's files; return a function that runs a script there and returns its output."""
    write_files(tmp_path, TINY_OPTIONS, tiny_weights)

    def run(script, *arguments):
        (tmp_path / "script.py").write_text(script)
        command = [sys.executable, "-m", "elmo.adapters.allennlp", "script.py"]
        done = subprocess.run(
            [*command, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_names_of_allennlp_are_where_it_had_them(run_script):
    assert run_script(NAMES, "options.json", "weights.hdf5") == "True (3, 2, 16)\n"


def test_a_script_as_of_seqvec_writes_residues_by_id(run_script, tmp_path):
    fasta = "".join(f">{name}\n{sequence}\n" for name, sequence in PROTEINS.items())
    (tmp_path / "proteins.fasta").write_text(fasta)
    run_script(SEQVEC, ".", "proteins.fasta", "out.h5")
    elmo = Elmo.load(tmp_path / "weights.hdf5")
    sentences = [list("MKT"), *sorted(map(list, PROTEINS.values()), key=len)]
    # The first row continues from the previous sequence's state; the second row starts fresh.
    first = elmo.embed_tokens(sentences[:2], state="carry", batch_size=1)[1]
    second = elmo.embed_tokens([sentences[2]])[0]
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_allclose(file["P2"], first.layers.sum(0), atol=1e-5)
        np.testing.assert_allclose(file["P1"], second.layers.sum(0), atol=1e-5)


def test_a_script_as_of_catelmo_writes_a_vector_per_sequence(run_script, tmp_path):
    run_script(CATELMO, "options.json", "weights.hdf5", "out.json", *PROTEINS.values())
    found = json.loads((tmp_path / "out.json").read_text())
    carried = Elmo.load(tmp_path / "weights.hdf5").embed_tokens(
        [list(each) for each in PROTEINS.values()], state="carry", batch_size=1
    )
    expected = [each.layers.sum(0).mean(0) for each in carried]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_script_as_of_epidope_streams_its_sequences(run_script, tmp_path):
    run_script(EPIDOPE, "options.json", "weights.hdf5", "out.pickle", *PROTEINS.values())
    found = np.load(tmp_path / "out.pickle", allow_pickle=True)
    expected = Elmo.load(tmp_path / "weights.hdf5").embed_tokens(
        [list(each) for each in PROTEINS.values()]
    )
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_allclose(theirs, ours.layers.mean(0), atol=1e-5)


def test_a_script_as_of_lama_has_the_probabilities_of_score(run_script, tmp_path):
    tokens = ["the", "cat", "sat", "."]
    words = ["</S>", "<S>", "<UNK>", *tokens, "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    rng = np.random.default_rng(3)
    with h5py.File(tmp_path / "softmax.hdf5", "w") as file:
        dim = TINY_OPTIONS["lstm"]["projection_dim"]
        file["softmax/W"] = rng.normal(size=(len(words), dim)).astype(np.float32)
        file["softmax/b"] = rng.normal(size=len(words)).astype(np.float32)
    run_script(LAMA, ".", "out.json", *tokens)
    found = json.loads((tmp_path / "out.json").read_text())
    elmo = Elmo.load(
        tmp_path / "weights.hdf5",
        softmax=tmp_path / "softmax.hdf5",
        vocabulary=tmp_path / "vocab.txt",
    )
    (scored,) = elmo.score_tokens([tokens])
    for direction in ("forward", "backward"):
        expected = scored.sentences[0].log_probs[direction]
        np.testing.assert_allclose(found[direction], expected, atol=1e-5)
