"""The hash of a model: equal in every format, and different after any change of its vectors."""

import copy
import dataclasses

import pytest
import torch

from elmo import Elmo
from elmo.models.identity import model_hash
from elmo.network import kernels
from elmo.network.bilm import BiLM
from elmo.network.softmax import build_head
from elmo.text.vocabulary import Vocabulary
from elmo.text.word_encoder import Lexicon, LexiconConfig
from tests.random_models import build_bilm

WORDS = Vocabulary.of_words(["a", "bow"])


def test_the_hash_does_not_depend_on_the_file_format(elmo, official, tmp_path):
    elmo.save(tmp_path / "folder")
    models = (elmo, Elmo.load(official), Elmo.load(tmp_path / "folder"))
    assert len({model_hash(opened.bilm) for opened in models}) == 1


def test_one_changed_number_changes_the_hash(bilm):
    before = model_hash(bilm)
    next(bilm.parameters()).data.flatten()[3] += 1e-6
    assert model_hash(bilm) != before


@pytest.mark.parametrize("clip", ["cell_clip", "proj_clip"])
def test_other_clips_change_the_hash(bilm, tiny_options, tiny_weights, clip):
    tiny_options["lstm"][clip] = 2
    assert model_hash(build_bilm(tiny_options, tiny_weights)) != model_hash(bilm)


def test_other_word_lists_change_the_hash(bilm):
    lists = LexiconConfig(n_words=5, word_dim=4, n_characters=2, has_projection=True)
    config = dataclasses.replace(bilm.config, lexicon=lists)
    networks = [
        BiLM(config, Lexicon(Vocabulary.of_words(words), tuple(characters)))
        for words, characters in (("ab", "ab"), ("ac", "ab"), ("ab", "ac"))
    ]
    for network in networks[1:]:
        network.load_state_dict(networks[0].state_dict())
    assert len(set(map(model_hash, networks))) == 3


def test_bfloat16_weights_have_a_hash_of_their_own(bilm):
    rounded = copy.deepcopy(bilm).to(torch.bfloat16)
    assert model_hash(rounded) == model_hash(copy.deepcopy(rounded))
    assert model_hash(rounded) != model_hash(bilm)


def test_a_head_and_its_words_change_the_hash(bilm):
    head = build_head("full", len(WORDS), bilm.config.lstm.projection_dim)
    others = Vocabulary.of_words(["a", "cow"])
    hashes = [model_hash(bilm), model_hash(bilm, head, WORDS), model_hash(bilm, head, others)]
    assert len(set(hashes)) == 3


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_model_has_the_same_hash_and_stays_packed(bilm, dtype):
    bilm.store_matrices(dtype)
    plain = model_hash(copy.deepcopy(bilm))
    bilm.hold_packed()
    n_numbers = sum(each.numel() for each in kernels.plain_tensors(bilm))
    assert model_hash(bilm) == plain
    assert sum(each.numel() for each in kernels.plain_tensors(bilm)) == n_numbers
    assert n_numbers < kernels.count_numbers(bilm)


def test_the_shipped_model_has_the_hash_that_stored_results_record():
    assert model_hash(Elmo.load().bilm).startswith("074d0342e40157e8")
