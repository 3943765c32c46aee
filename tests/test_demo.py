import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def demo():
    spec = importlib.util.spec_from_file_location("bow", EXAMPLES / "bow.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_shows_a_neighbour_for_every_sentence(demo, elmo, tmp_path, capsys):
    elmo.save(tmp_path / "model")
    demo.SHIPPED_MODEL = tmp_path / "model"
    demo.main()
    shown = capsys.readouterr().out
    assert len(re.findall(r"^  .*\[bow\].*\[bow\]", shown, flags=re.MULTILINE)) == 16
    assert "cosine 1.00" in shown


def test_every_sentence_of_the_demo_has_its_bow_once(demo):
    for sentences in demo.SENTENCES.values():
        assert all(len(re.findall(r"\bbow\b", sentence)) == 1 for sentence in sentences)


def test_no_sentence_of_the_demo_is_in_its_training_text(demo):
    text = demo.TRAINING_TEXT.read_text(encoding="utf-8")
    shared = [s for sentences in demo.SENTENCES.values() for s in sentences if s in text]
    assert not shared


@pytest.mark.slow
def test_without_a_model_the_demo_trains_one_once(demo, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "HERE", tmp_path / "examples")
    monkeypatch.setattr(demo, "SHIPPED_MODEL", tmp_path / "absent")
    monkeypatch.setattr(demo, "N_STEPS", 3)
    demo.main()
    assert "training a tiny one" in capsys.readouterr().out
    demo.main()
    assert "training a tiny one" not in capsys.readouterr().out
