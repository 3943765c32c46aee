"""Tiny tasks, and a biLM on disk for them."""

import pytest

from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.layer_cache import LayerSource
from elmo.tasks.train import train_task
from tests.conftest import TINY_OPTIONS
from tests.random_models import build_bilm, random_weights
from tests.tasks.tiny_tasks import TINY_TASKS


@pytest.fixture(scope="session")
def bilm_folder(tmp_path_factory):
    """The tiny model's folder."""
    return write_bilm(tmp_path_factory.mktemp("bilm") / "model", seed=1)


@pytest.fixture(scope="session")
def other_bilm_folder(tmp_path_factory):
    """The folder of a tiny model with other weights."""
    return write_bilm(tmp_path_factory.mktemp("bilm") / "model", seed=2)


def write_bilm(folder, seed):
    model_folder.save(folder, Model(build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed))))
    return folder


@pytest.fixture(params=TINY_TASKS, ids=lambda tiny: tiny.name)
def tiny(request):
    """Each task in turn."""
    return request.param


@pytest.fixture
def ner():
    """The simplest tiny task."""
    return TINY_TASKS[0]


@pytest.fixture
def train(bilm_folder, tmp_path):
    """Return a function that trains a tiny task in the test's folder and returns its result."""

    def train(tiny, *sets, name="run", **more):
        return train_tiny(tiny, sets, tmp_path, name, bilm=bilm_folder, **more)

    return train


@pytest.fixture(scope="module")
def trained(bilm_folder, tmp_path_factory):
    """A folder with the data of a tiny task and, in `run`, a model of it; not to be changed."""
    folders = {}

    def trained(tiny):
        if tiny.name not in folders:
            folders[tiny.name] = tmp_path_factory.mktemp(tiny.name)
            train_tiny(tiny, ["train.n_epochs=1"], folders[tiny.name], "run", bilm=bilm_folder)
        return folders[tiny.name]

    return trained


def train_tiny(tiny, sets, folder, name, *, has_elmo=True, is_fine_tuned=False, **more):
    task = find_task(tiny.name)
    file_sets = [s for s in tiny.sets if has_elmo or not s.startswith("elmo.")]
    switches = {"has_elmo": has_elmo, "is_fine_tuned": is_fine_tuned}
    config = read_config(task.defaults(), None, [*file_sets, *sets], **switches)
    path = folder / tiny.file_name
    if not path.exists():
        path.write_text(tiny.content, encoding="utf-8")
    return train_task(task, config, path, path, folder / name, **more)


@pytest.fixture
def corpus(corpus):
    """The corpus without the word that would be truncated with a warning."""
    return [sentence for sentence in corpus if not sentence[0].startswith("Donau")]


@pytest.fixture
def source(elmo):
    """Return a function that builds a layer source of the tiny model."""

    def source(config, folder=None):
        return LayerSource(elmo, config, folder)

    return source
