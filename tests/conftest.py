"""Shared fixtures: one tiny model (D = 8, 2 layers), ten lines of text, the golden files."""

import copy
import os
import shutil
import signal
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

from elmo.models.model_folder import Model
from tests.random_models import build_bilm, random_weights, write_files

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"

# The same examples on every machine; `--hypothesis-profile=search` looks for new ones.
hypothesis.settings.register_profile("same", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None, max_examples=500)
hypothesis.settings.load_profile("same")

# Tiny models gain nothing from threads, and lose much to them on a busy machine.
torch.set_num_threads(1)

# A shell starts background jobs with Ctrl-C ignored, which the commands under test would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

TINY_OPTIONS = {
    "lstm": {
        "dim": 16,
        "projection_dim": 8,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 8], [3, 8]],
        "n_highway": 1,
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}

CORPUS = """\
I took a bow .
He was wielding a bow and arrow .
The violinist drew her bow across the strings .
bow
They stood at the bow of the ship , and it was cold .
naïve café Zürich 東京 🙂 Ελλάδα
<S> is how some write the start of a sentence </S>
It 's one o'clock -- don't be late !
Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft is long
The old man the boats ; the boats man the old .
"""


def why_absent(tool: str) -> str | None:
    if tool == "browser":
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        return None if found else "no Chromium on the PATH"
    assert tool == "compiler", tool
    from elmo.network import kernels

    reason = kernels.why_unavailable()
    return None if reason is None else f"kernels cannot be built: {reason}"


def pytest_runtest_setup(item):
    """Skip tests that need a missing tool, except under CI on Linux, where they fail."""
    for marker in item.iter_markers("needs"):
        reason = why_absent(*marker.args)
        if reason is not None:
            is_required = bool(os.environ.get("CI")) and sys.platform == "linux"
            (pytest.fail if is_required else pytest.skip)(reason)


@pytest.fixture(scope="session")
def corpus():
    """Ten sentences of tokens."""
    return [line.split() for line in CORPUS.splitlines()]


@pytest.fixture
def tiny_options():
    return copy.deepcopy(TINY_OPTIONS)


@pytest.fixture(scope="session")
def tiny_weights():
    """The tiny model's arrays by their official path; not to be changed."""
    return random_weights(TINY_OPTIONS, seed=1)


@pytest.fixture
def bilm(tiny_weights):
    """The tiny network; a test may change it."""
    return build_bilm(TINY_OPTIONS, tiny_weights)


@pytest.fixture
def elmo(bilm):
    from elmo.api import Elmo

    return Elmo(Model(bilm))


@pytest.fixture(scope="session")
def scoring_model(tmp_path_factory, tiny_weights):
    """The folder of the tiny model with a head for all words of the corpus; not to be changed."""
    from elmo.models import model_folder
    from elmo.network.softmax import build_head
    from elmo.text.vocabulary import Vocabulary

    bilm = build_bilm(TINY_OPTIONS, tiny_weights)
    vocabulary = Vocabulary.of_words(sorted(set(CORPUS.split())))
    torch.manual_seed(1)
    head = build_head("full", len(vocabulary), bilm.config.lstm.projection_dim)
    folder = tmp_path_factory.mktemp("scoring") / "model"
    model_folder.save(folder, Model(bilm, head, vocabulary))
    return folder


@pytest.fixture
def official(tmp_path, tiny_weights):
    """The path of the tiny model's official weights, its options beside it."""
    return write_files(tmp_path / "official", TINY_OPTIONS, tiny_weights)


@pytest.fixture(scope="session")
def shared():
    """The folder with other projects' golden files, which are not ours to copy."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is absent: other projects' golden files are read there")
    return SHARED
