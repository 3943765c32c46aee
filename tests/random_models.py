"""Random models for tests: options and weights in the official layout, drawn by hypothesis.

Weights are large enough that gates saturate, clips cut and highways mix: small ones would let a
wrong network pass for a right one.
"""

import io
import json

import h5py
import numpy as np
from hypothesis import strategies as st

from elmo.models import model_folder
from elmo.models.formats import bilm_hdf5, bilm_options
from elmo.text.word_encoder import Lexicon, WordEncoder

# All of Unicode, lone surrogates included, as text from the web has it.
WORDS = st.text(st.characters(exclude_categories=()), max_size=12)
SENTENCES = st.lists(WORDS, max_size=6)


@st.composite
def options(draw):
    """An `options.json` of a small network of any kind that the format can describe."""
    filters = draw(
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), min_size=1, max_size=4)
    )
    n_filters = sum(number for _, number in filters)
    clips = st.sampled_from([None, 0.25, 3])
    return {
        "bidirectional": draw(st.booleans()),
        "char_cnn": {
            "activation": draw(st.sampled_from(["relu", "tanh"])),
            "embedding": {"dim": draw(st.integers(1, 5))},
            "filters": [list(pair) for pair in filters],
            "max_characters_per_token": draw(st.integers(5, 16)),
            "n_characters": 262,
            "n_highway": draw(st.integers(0, 2)),
        },
        "lstm": {
            "dim": draw(st.integers(1, 9)),
            # If it is the number of filters, the token vectors are not projected.
            "projection_dim": draw(st.just(n_filters) | st.integers(1, 7)),
            "n_layers": draw(st.integers(1, 3)),
            "cell_clip": draw(clips),
            "proj_clip": draw(clips),
            "use_skip_connections": draw(st.booleans()),
        },
    }


def random_weights(options, seed=0):
    """Float32 arrays by their path in a `weights.hdf5`."""
    rng = np.random.default_rng(seed)
    return {
        path: rng.normal(0, 1 / np.sqrt(max(1, np.prod(shape[:-1]))), shape).astype(np.float32)
        * (2 if len(shape) > 1 else 0.5)
        for path, shape in shapes(options).items()
    }


def shapes(options):
    """The shape of every dataset of a model with these options."""
    cnn, lstm = options["char_cnn"], options["lstm"]
    char_dim, n_filters = cnn["embedding"]["dim"], sum(n for _, n in cnn["filters"])
    dim, projection_dim = lstm["dim"], lstm["projection_dim"]
    found = {"char_embed": (261, char_dim)}
    for i, (width, number) in enumerate(cnn["filters"]):
        found[f"CNN/W_cnn_{i}"] = (1, width, char_dim, number)
        found[f"CNN/b_cnn_{i}"] = (number,)
    for k in range(cnn["n_highway"]):
        for part in ("carry", "transform"):
            found[f"CNN_high_{k}/W_{part}"] = (n_filters, n_filters)
            found[f"CNN_high_{k}/b_{part}"] = (n_filters,)
    if n_filters != projection_dim:
        found["CNN_proj/W_proj"] = (n_filters, projection_dim)
        found["CNN_proj/b_proj"] = (projection_dim,)
    for r in range(2 if options.get("bidirectional", True) else 1):
        for depth in range(lstm["n_layers"]):
            cell = f"RNN_{r}/RNN/MultiRNNCell/Cell{depth}/LSTMCell/"
            found[cell + "W_0"] = (2 * projection_dim, 4 * dim)
            found[cell + "B"] = (4 * dim,)
            found[cell + "W_P_0"] = (dim, projection_dim)
    return found


def hdf5_bytes(weights):
    """A `weights.hdf5` in memory."""
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for path, values in weights.items():
            file[path] = values
    content.seek(0)
    return content


def write_files(folder, options, weights):
    """Write the two official files into a folder; return the path of the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    (folder / "weights.hdf5").write_bytes(hdf5_bytes(weights).getvalue())
    return folder / "weights.hdf5"


def build_bilm(options, weights):
    """The package's network with these weights, read as from a file."""
    config = bilm_options.read_options(options, "options.json")
    config, state = bilm_hdf5.read_weights(hdf5_bytes(weights), config, "weights.hdf5")
    return model_folder.assemble(config, state, "weights.hdf5")


def encode_batch(sentences, max_characters, widest_filter=1):
    """Sentences as a batch of bytes."""
    return WordEncoder(Lexicon(), max_characters, widest_filter).batch(sentences)
