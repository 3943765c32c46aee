"""A model in other processes: pickled, copied, spawned, forked."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.errors import ConfigError

TEXT = "I took a bow. He drew a bow."


@pytest.fixture
def model(scoring_model):
    elmo = Elmo.load(scoring_model)
    elmo.score(TEXT)  # fills the caches
    return elmo


@pytest.mark.parametrize("make", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_a_copy_gives_the_same_and_shares_nothing(model, make):
    other = make(model)
    assert other.embed(TEXT) == model.embed(TEXT)
    assert other.score(TEXT) == model.score(TEXT)
    assert repr(other) == repr(model)
    before = model.embed(TEXT)
    with torch.no_grad():
        for parameter in other.bilm.parameters():
            parameter.mul_(0.5)
    assert model.embed(TEXT) == before


def test_a_model_in_bfloat16_is_copied_as_it_is(official):
    elmo = Elmo.load(official, dtype="bfloat16")
    assert pickle.loads(pickle.dumps(elmo)).embed(TEXT) == elmo.embed(TEXT)


class Vectors(torch.utils.data.Dataset):
    """A data set that embeds in the worker."""

    def __init__(self, elmo):
        self.elmo = elmo

    def __len__(self):
        return 4

    def __getitem__(self, number):
        return self.elmo.embed(TEXT).vectors(number % 3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_of_a_data_loader_embed(model, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    loader = torch.utils.data.DataLoader(
        Vectors(model), batch_size=None, num_workers=2, multiprocessing_context=method
    )
    for number, vectors in enumerate(loader):
        np.testing.assert_array_equal(vectors, model.embed(TEXT).vectors(number % 3))
    is_shared = [parameter.is_shared() for parameter in model.bilm.parameters()]
    assert all(is_shared) or method == "fork"  # spawned workers share the weights' memory


@pytest.mark.slow
def test_joblib_runs_a_model_in_its_processes(model):
    joblib = pytest.importorskip("joblib")
    jobs = (joblib.delayed(model.embed)(TEXT) for _ in range(2))
    assert joblib.Parallel(n_jobs=2)(jobs) == [model.embed(TEXT)] * 2


FORKED = """
import os, sys, torch
from elmo import Elmo

torch.set_num_threads(2)
elmo = Elmo.load(sys.argv[1])
texts = [f"I took a bow to {word} and then another one ." for word in range(400)]
expected = elmo.embed(texts)
child = os.fork()
if child == 0:
    elmo.embedder.cache.n_words = 0  # the token layer runs again, too
    os._exit(0 if len(elmo.embed(texts)) == len(expected) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_embeds_and_does_not_hang(official):
    """Run with two OpenMP threads, for which the child must not wait forever."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    call = [sys.executable, "-c", FORKED, str(official)]
    assert subprocess.run(call, env=environment, timeout=300).returncode == 0


def test_a_model_is_moved_to_a_device_and_says_where_it_is(model):
    assert model.to("cpu") is model
    assert model.device == torch.device("cpu")
    assert repr(model).endswith("55 output words, cpu>")
    with pytest.raises(ConfigError, match=r"device .nowhere.: .*expected one"):
        model.to("nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="device 'cuda'"):
            model.to("cuda")
    model.embed(TEXT)
