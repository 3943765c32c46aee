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


def test_the_demo_shows_a_neighbor_for_every_sentence(demo, elmo, capsys):
    demo.main(elmo)
    shown = capsys.readouterr().out
    assert len(re.findall(r"^  .*\[bow\].*\[bow\]", shown, flags=re.MULTILINE)) == 16
    assert "cosine 1.00" in shown


def test_every_sentence_of_the_demo_has_its_bow_once(demo):
    for sentences in demo.SENTENCES.values():
        assert all(len(re.findall(r"\bbow\b", sentence)) == 1 for sentence in sentences)
