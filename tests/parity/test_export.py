"""A model trained by this package and exported as official files has equal vectors in AllenNLP."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo
from elmo.cli.main import main

PEER = Path.home() / ".cache" / "elmo-peers" / "allennlp" / "bin" / "python"


def run(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert not end.value.code


@pytest.mark.slow
@pytest.mark.skipif(not PEER.exists(), reason=f"AllenNLP is not installed at {PEER}")
def test_a_trained_model_has_its_vectors_in_allennlp(shared, corpus, tmp_path):
    # AllenNLP reads a word "<S>" as its marker; in this package it is a word like any other.
    sentences = [tokens for tokens in corpus if "<S>" not in tokens]
    lines = [" ".join(tokens) for tokens in sentences]
    (tmp_path / "text.txt").write_text("\n".join(lines * 4) + "\n")
    text = (
        "--train",
        tmp_path / "text.txt",
        "--heldout",
        tmp_path / "text.txt",
        "--lines",
        "tokens",
    )
    sizes = ("--size", "tiny", "--set", "vocabulary.min_count=1", "--max-steps", 30)
    run("pretrain", *text, "--out", tmp_path / "run", *sizes)
    run("convert", tmp_path / "run" / "model", tmp_path / "weights.hdf5")
    (tmp_path / "sentences.txt").write_text("\n".join(lines) + "\n")
    script = shared / "peers" / "allennlp_embed.py"
    out = tmp_path / "layers.npz"
    subprocess.run(
        [PEER, script, tmp_path, tmp_path / "sentences.txt", "--repeat", "1", "--out", out],
        check=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    theirs = np.load(out)
    for k, embedded in enumerate(Elmo.load(tmp_path / "run" / "model").embed_tokens(sentences)):
        np.testing.assert_allclose(embedded.layers, theirs[f"s{k}"], atol=1e-5)
