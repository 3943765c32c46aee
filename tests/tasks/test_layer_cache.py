"""Cached layers equal those of the biLM, are computed once, and are never confused."""

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import ConfigError, WriteError
from elmo.models.model_folder import Model
from elmo.tasks.config import ElmoConfig
from elmo.tasks.layer_cache import LayerSource
from tests.conftest import TINY_OPTIONS
from tests.random_models import build_bilm, random_weights


class CountingElmo(Elmo):
    """Counts the sentences that it embeds."""

    n_embedded = 0

    def stream_tokens(self, sentences, **more):
        sentences = list(sentences)
        self.n_embedded += len(sentences)
        return super().stream_tokens(sentences, **more)


def test_kept_layers_are_those_of_the_model(source, elmo, corpus, tmp_path):
    kept, fresh = source(ElmoConfig(), tmp_path), source(ElmoConfig())
    kept.cache([*corpus, corpus[0], corpus[3]])
    for tokens, one, other in zip(corpus, kept.read(corpus), fresh.read(corpus), strict=True):
        layers = elmo.embed_tokens([tokens])[0].layers.transpose(1, 0, 2)
        np.testing.assert_allclose(one, layers, atol=2e-3)
        np.testing.assert_allclose(one, other, atol=1e-3)
        assert one.dtype == np.float16


def test_layers_are_computed_once(elmo, corpus, tmp_path):
    counting = CountingElmo(elmo.model)
    first = LayerSource(counting, ElmoConfig(), tmp_path)
    first.cache(corpus)
    # All layers are on disk, whichever are chosen.
    again = LayerSource(counting, ElmoConfig(layers="top"), tmp_path)
    again.cache(corpus)
    expected = first.read(corpus)[2][:, -1:]
    np.testing.assert_array_equal(again.read(corpus)[2], expected)
    assert counting.n_embedded == len(corpus)


def test_sentences_that_were_not_kept_are_computed(source, corpus, tmp_path):
    kept = source(ElmoConfig(), tmp_path)
    kept.cache(corpus[:4])
    mixed = [corpus[5], corpus[1], ["never", "seen"]]
    fresh = source(ElmoConfig())
    for one, other in zip(kept.read(mixed), fresh.read(mixed), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("layers", ["all", "top", 0, 1])
@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_layers_and_directions_are_chosen(source, elmo, corpus, layers, direction):
    chosen = source(ElmoConfig(layers=layers, direction=direction))
    (array,) = chosen.read(corpus[:1])
    everything = elmo.embed_tokens(corpus[:1])[0].layers
    numbers = {"all": slice(None), "top": slice(-1, None)}.get(layers)
    expected = everything[slice(layers, layers + 1) if numbers is None else numbers]
    columns = {"both": slice(None), "forward": slice(8), "backward": slice(8, 16)}[direction]
    np.testing.assert_allclose(array.transpose(1, 0, 2), expected[:, :, columns], atol=2e-3)
    assert array.shape == (len(corpus[0]), chosen.n_layers, chosen.dim)


def test_other_models_states_and_sentences_have_other_files(elmo, corpus, tmp_path):
    other = Elmo(Model(build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=2))))
    for model, state, sentences in (
        (elmo, "fresh", corpus),
        (elmo, "warm", corpus),
        (elmo, "fresh", corpus[::-1]),
        (other, "fresh", corpus),
    ):
        n_before = len(list(tmp_path.iterdir()))
        LayerSource(model, ElmoConfig(state=state), tmp_path).cache(sentences)
        assert len(list(tmp_path.iterdir())) == n_before + 1


def test_what_was_left_unfinished_is_not_taken_for_the_whole(source, corpus, tmp_path, monkeypatch):
    broken = source(ElmoConfig(), tmp_path)

    def stop_halfway(sentences):
        yield from list(LayerSource._embed(broken, sentences))[:3]
        raise KeyboardInterrupt

    monkeypatch.setattr(broken, "_embed", stop_halfway)
    with pytest.raises(KeyboardInterrupt):
        broken.cache(corpus)
    assert list(tmp_path.iterdir()) == []
    source(ElmoConfig(), tmp_path).cache(corpus)


def test_two_processes_may_write_the_same_layers(source, corpus, tmp_path, monkeypatch):
    slow = source(ElmoConfig(), tmp_path)

    def let_another_be_faster(sentences):
        monkeypatch.undo()
        source(ElmoConfig(), tmp_path).cache(corpus)
        yield from LayerSource._embed(slow, sentences)

    monkeypatch.setattr(slow, "_embed", let_another_be_faster)
    slow.cache(corpus)
    assert len(list(tmp_path.iterdir())) == 1
    np.testing.assert_array_equal(slow.read(corpus)[1], source(ElmoConfig()).read(corpus[1:2])[0])


def test_held_layers_are_let_go_of_again(elmo, corpus):
    counting = CountingElmo(elmo.model)
    held = LayerSource(counting, ElmoConfig())
    expected = held.read(corpus)
    with held.held([*corpus, corpus[0]]):
        counting.n_embedded = 0
        for one, other in zip(held.read(corpus[::-1]), expected[::-1], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-3)
        assert counting.n_embedded == 0
    held.read(corpus)
    assert counting.n_embedded == len(corpus)


def test_a_place_that_cannot_be_written_to_is_one_error(source, corpus, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        source(ElmoConfig(), tmp_path / "file").cache(corpus)


def test_a_layer_that_is_not_there_is_refused(source):
    with pytest.raises(ConfigError, match="expected all, top or 0 to 2"):
        source(ElmoConfig(layers=3))
