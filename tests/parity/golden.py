"""The golden sets of both originals: their sentences, batches and expected top layers."""

import json

import h5py
import numpy as np

SENTENCES = {"bilm-tf": "lm_embeddings_sentences.json", "allennlp": "sentences.json"}


def read_golden(folder):
    """Lists of tokens [list][sentence], and the expected top layers [list][sentence] (T, D)."""
    texts = json.loads((folder / SENTENCES[folder.name]).read_text(encoding="utf-8"))
    tokens = [[sentence.split() for sentence in sentences] for sentences in texts]
    expected = []
    for k, sentences in enumerate(tokens):
        with h5py.File(folder / f"lm_embeddings_{k}.hdf5", "r") as file:
            halves = [file[str(i)][...] for i in range(len(sentences))]
        expected.append([np.concatenate([forward, backward], -1) for forward, backward in halves])
    return tokens, expected
