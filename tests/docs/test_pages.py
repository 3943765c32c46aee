"""Every Python block of README and docs/ runs, and every `elmo` line is valid."""

import ast
import io
import lzma
import re
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.cli.main import VERBS, cli
from elmo.pretraining.config import read_config
from tests.conftest import CORPUS, TINY_OPTIONS
from tests.docs.pages import (
    PAGES,
    QUICK,
    ROOT,
    Block,
    blocks_of,
    check_shown,
    commands_of,
    missing_library,
    parse,
    run_python,
)
from tests.random_models import write_files

NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
PIPED = CORPUS.encode()  # standard input, for commands after a pipe
COMMANDS = [
    pytest.param(words, id=f"{name}: elmo {' '.join(words)}")
    for name, page in zip(NAMES, PAGES, strict=True)
    for block in blocks_of(page)
    if block.language == "sh"
    for words in commands_of(block)
]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, scoring_model, tiny_weights):
    """A folder with what the pages name: models, texts, lists of words."""
    folder = tmp_path_factory.mktemp("prepared")
    for name in ("model", "runs/mine/model", "runs/domain/model"):
        shutil.copytree(scoring_model, folder / name)
    shutil.copytree(ROOT / "tests/parity/made/many-langs", folder / "179")
    shutil.copytree(ROOT / "tests/models/formats/bilm-training/characters", folder / "save_dir")
    (folder / "save_dir" / "weights.hdf5").unlink()  # what bilm's own dump made of it
    write_files(folder, TINY_OPTIONS, tiny_weights)
    for name in ("text.txt", "corpus.txt", "heldout.txt", "other.txt", "corpus/part.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(CORPUS)
    with lzma.open(folder / "corpus" / "part.txt.xz", "wt", encoding="utf-8") as file:
        file.write(CORPUS)
    words = ["<S>", "</S>", "<UNK>", *sorted(set(CORPUS.split()) - {"<S>", "</S>"})]
    (folder / "vocabulary.txt").write_text("\n".join(words))
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"] = np.ones((len(words), TINY_OPTIONS["lstm"]["projection_dim"]))
        file["softmax/b"] = np.zeros(len(words))
    (folder / "words.txt").write_text("bow\narrow\nship\n")
    return folder


@pytest.fixture
def workplace(prepared, tmp_path, monkeypatch):
    """Change to a copy of the prepared folder."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_code_of_the_page_runs_and_gives_what_its_comments_say(page, monkeypatch):
    if library := missing_library(page):
        pytest.skip(f"needs {library}")
    names = {}
    for block in blocks_of(page):
        if block.language == "python" and block.is_run:
            run_python(block, page, names)
        elif block.language == "sh" and block.is_run:
            for words in commands_of(block):
                if words[0] in QUICK:
                    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PIPED)))
                    cli.main(parse(words), standalone_mode=False)


@pytest.mark.usefixtures("workplace")
def test_settings_of_the_pre_training_page_are_read():
    (block,) = (b for b in blocks_of(ROOT / "docs/pretraining.md") if b.language == "toml")
    Path("run.toml").write_text(block.text)
    read_config(None, Path("run.toml"), [])


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_name_that_the_page_imports_is_public(page):
    snapshot = (ROOT / "tests/public_api.txt").read_text(encoding="utf-8")
    public = {re.split(r"\W*\(", line)[0] for line in snapshot.splitlines()}
    imported = [
        f"{node.module}.{alias.name}"
        for block in blocks_of(page)
        if block.language == "python"
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "elmo"
        for alias in node.names
    ]
    assert [name for name in imported if name not in public] == []


def test_links_from_readme_and_contributing_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        links = re.findall(r"\]\(([^):#]+)\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("words", COMMANDS)
def test_options_of_the_line_exist(words):
    parse(words)


def test_every_verb_is_shown_on_some_page():
    assert {words.values[0][0] for words in COMMANDS} >= set(VERBS)


def test_a_page_that_says_what_is_not_so_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nnumbers = [1, 2]\nsum(numbers)  # 4\n```\n")
    with pytest.raises(AssertionError, match=r"page.md:3"):
        run_python(blocks_of(page)[0], page, {})
    check_shown(0.8349, "0.83", "")
    check_shown(3, "as many as there are", "")


def test_commands_are_found_wherever_they_stand():
    text = (
        "echo x | elmo score - -m model > out\ntorchrun -m elmo pretrain \\\n  --out run  # why\n"
    )
    assert commands_of(Block("sh", text, 1)) == [
        ["score", "-", "-m", "model"],
        ["pretrain", "--out", "run"],
    ]
    assert not commands_of(Block("sh", "pip install elmo\npython -m benchmarks.carried_state\n", 1))


def test_few_blocks_are_left_out_and_say_why():
    left_out = [block for page in PAGES for block in blocks_of(page) if not block.is_run]
    assert len(left_out) <= 14
    assert all(len(block.not_run) > 10 for block in left_out)
