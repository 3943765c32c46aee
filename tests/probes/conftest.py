"""A small SemCor, one all-words set and a WordNet in their formats, and a language model."""

import pytest
import torch

from elmo.api import Elmo
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head
from elmo.text.vocabulary import Vocabulary

SEMCOR = """\
{"tokens": ["I", "took", "a", "bow", "."], "senses": [[3, 4, "bow", "NN", "bow%1:10:00::"]]}
{"tokens": ["We", "took", "a", "bow", "!"], "senses": [[3, 4, "bow", "NN", "bow%1:10:00::"]]}
{"tokens": ["He", "shot", "a", "bow"], "senses": [[3, 4, "bow", "NN", "bow%1:06:01::"]]}
{"tokens": ["They", "run", "ran", "on"], "senses": [[1, 2, "run", "VB", "run%2:38:00::;2:32:03::"],\
 [2, 4, "run_on", "VB", "run_on%2:38:00::"]]}
"""
XML = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="small">
<text id="d0">
<sentence id="d0.s0">
<wf lemma="she" pos="PRON">She</wf>
<wf lemma="take" pos="VERB">took</wf>
<wf lemma="a" pos="DET">a</wf>
<instance id="d0.s0.t0" lemma="bow" pos="NOUN">bow</instance>
<instance id="d0.s0.t1" lemma="Curtain_call" pos="NOUN">curtain call</instance>
<wf lemma="." pos=".">.</wf>
</sentence>
<sentence id="d0.s1">
<instance id="d0.s1.t0" lemma="unheard" pos="ADJ">unheard</instance>
</sentence>
</text>
</corpus>
"""
GOLD = """\
d0.s0.t0 bow%1:10:00:: bow%1:04:01::
d0.s0.t1 curtain_call%1:10:00::
d0.s1.t0 unheard%5:00:00:new:00
"""
WORDNET = {
    "data.noun": "00000100 06 n 01 bow 1 000 | a weapon\n"
    "00000200 10 n 02 bow 0 curtain_call 0 000 | an appearance\n",
    "index.noun": "bow n 2 0 2 0 00000100 00000200\ncurtain_call n 1 0 1 0 00000200\n",
    **{f"{kind}.{part}": "" for kind in ("data", "index") for part in ("verb", "adj", "adv")},
}


@pytest.fixture
def semcor(tmp_path):
    path = tmp_path / "semcor.jsonl"
    path.write_text(SEMCOR)
    return path


@pytest.fixture
def sets(tmp_path):
    for name in ("small", "ALL"):
        folder = tmp_path / "sets" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.data.xml").write_text(XML)
        (folder / f"{name}.gold.key.txt").write_text(GOLD)
    return tmp_path / "sets"


@pytest.fixture
def wordnet(tmp_path):
    (tmp_path / "wordnet").mkdir()
    for name, content in WORDNET.items():
        (tmp_path / "wordnet" / name).write_text(content)
    return tmp_path / "wordnet"


@pytest.fixture
def language_model(bilm):
    """A model that scores words, with a vocabulary ordered by frequency."""
    torch.manual_seed(1)
    vocabulary = Vocabulary.of_words(["the", "a", ".", "dog", "dogs", "runs", "run", "archer"])
    head = build_head("full", len(vocabulary), bilm.config.lstm.projection_dim)
    return Elmo(Model(bilm, head, vocabulary))
