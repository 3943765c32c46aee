"""The code on the adapters' pages runs, from top to bottom, in a folder with a model."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parent.parent.parent / "docs" / "adapters"
# What a page needs beside the package.
LIBRARIES = {
    "flair": ["flair"],
    "gensim": ["gensim"],
    "huggingface": ["huggingface_hub"],
    "onnx": ["onnx", "onnxruntime"],
    "parquet": ["pyarrow"],
    "sentence-transformers": ["sentence_transformers"],
    "sklearn": ["sklearn"],
    "spacy": ["spacy"],
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_code_of_the_page_runs(name, elmo, corpus, tmp_path, monkeypatch):
    for library in LIBRARIES[name]:
        pytest.importorskip(library, reason=f"needs {library}")
    elmo.save(tmp_path / "model")
    (tmp_path / "text.txt").write_text("".join(" ".join(words) + "\n" for words in corpus))
    monkeypatch.chdir(tmp_path)
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(block, names)


def test_every_page_is_run():
    assert {path.stem for path in PAGES.glob("*.md")} == set(LIBRARIES)
