"""Hugging Face folders and repositories, without network access."""

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip(
    "huggingface_hub", reason="needs huggingface_hub: pip install 'elmo-torch[huggingface]'"
)

import huggingface_hub
from huggingface_hub import ModelCard

from elmo.adapters.huggingface import HubElmo
from elmo.api import Elmo
from elmo.errors import CheckpointError

SENTENCES = [["I", "took", "a", "bow"], ["東京"]]


def same(one, other):
    return all(
        np.array_equal(a.layers, b.layers)
        for a, b in zip(one.embed_tokens(SENTENCES), other.embed_tokens(SENTENCES), strict=True)
    )


def test_a_saved_folder_is_opened_by_both_without_network(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    HubElmo(elmo).save_pretrained(tmp_path / "model")
    assert same(HubElmo.from_pretrained(tmp_path / "model").elmo, elmo)
    assert same(Elmo.load(tmp_path / "model"), elmo)


def test_a_folder_can_be_saved_over(elmo, tmp_path):
    HubElmo(elmo).save_pretrained(tmp_path / "model")
    HubElmo(elmo, language="de").save_pretrained(tmp_path / "model")
    assert ModelCard.load(tmp_path / "model" / "README.md").data.language == "de"
    assert same(Elmo.load(tmp_path / "model"), elmo)


def test_the_card_has_metadata_and_keeps_its_text(elmo, tmp_path):
    HubElmo(elmo, language="en", license_id="apache-2.0").save_pretrained(tmp_path / "model")
    card = ModelCard.load(tmp_path / "model" / "README.md")
    assert card.data.library_name == "elmo-torch"
    assert card.data.license == "apache-2.0"
    assert card.data.pipeline_tag == "feature-extraction"
    assert "elmo" in card.data.tags
    assert "CNN over bytes" in card.text
    # A user-written card survives saving and loading unchanged.
    own = "---\nlicense: mit\n---\n\n# Ours\n"
    HubElmo(elmo, card=own).save_pretrained(tmp_path / "own")
    loaded = HubElmo.from_pretrained(str(tmp_path / "own"))
    loaded.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text() == own


class LocalHub:
    """A stand-in for `HfApi` with the two calls of the mixin's upload, which copies to a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, **_):
        return self

    def create_repo(self, repo_id, **_):
        self.repo_id = repo_id
        return self

    def upload_folder(self, *, folder_path, **_):
        shutil.copytree(folder_path, self.folder)


def test_pushing_uploads_the_model_with_its_card(elmo, tmp_path, monkeypatch):
    hub = LocalHub(tmp_path / "uploaded")
    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", hub)
    HubElmo(elmo, license_id="mit").push_to_hub("me/elmo-biomed")
    assert hub.repo_id == "me/elmo-biomed"
    names = {path.name for path in hub.folder.iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors"}
    assert same(Elmo.load(hub.folder), elmo)


def test_a_repository_is_read_from_the_local_cache(elmo, tmp_path):
    """Lay out a cache as huggingface_hub does, so that nothing is downloaded."""
    repository = tmp_path / "cache" / "models--me--elmo"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("c0ffee")
    elmo.save(repository / "snapshots" / "c0ffee")
    loaded = HubElmo.from_pretrained("me/elmo", cache_dir=tmp_path / "cache", local_files_only=True)
    assert same(loaded.elmo, elmo)


def test_a_folder_without_a_model_is_reported(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="expected"):
        HubElmo.from_pretrained(Path(tmp_path / "empty"))
