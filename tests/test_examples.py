"""The examples run as scripts."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.tiny_tasks import NAMES, as_columns

EXAMPLE = Path(__file__).parent.parent / "examples" / "senses_and_layers.py"


def test_the_example_draws_its_pictures(scoring_model, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    monkeypatch.setenv("MPLBACKEND", "agg")
    words = ["--model", str(scoring_model), "--out", str(tmp_path / "pictures"), "-f", "kernel"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *words])
    names = runpy.run_path(str(EXAMPLE), run_name="__main__")
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert pictures == {"senses-by-layer.png", "similarity-by-layer.png", "surprisal.png"}
    assert len(capsys.readouterr().out.splitlines()) == len(names["layers"])


def test_the_page_of_the_example_shows_what_it_prints(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--out", str(tmp_path)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    page = EXAMPLE.parents[1] / "docs" / "example-senses-and-layers.md"
    assert f"```text\n{capsys.readouterr().out}```" in page.read_text(encoding="utf-8")


def test_cells_of_the_example_open_as_a_notebook():
    text = EXAMPLE.read_text(encoding="utf-8")
    cells = text.split("\n# %%")
    assert len(cells) > 10
    for cell in cells[1:]:
        if cell.startswith(" [markdown]"):
            assert all(line.startswith("#") for line in cell.splitlines()[1:] if line)
        else:
            compile(cell.partition("\n")[2], str(EXAMPLE), "exec")


def test_a_model_of_ones_own_learns_its_sentences(monkeypatch, capsys):
    script = EXAMPLE.with_name("own_model.py")
    monkeypatch.setattr(sys, "argv", [str(script)])
    names = runpy.run_path(str(script), run_name="__main__")
    shown = capsys.readouterr().out.splitlines()
    labeled = [" ".join(pair.rsplit("/", 1)[1] for pair in line.split()) for line in shown]
    assert labeled == [labels for _, labels in names["DATA"]]


def test_five_commands_make_a_tagger(tmp_path):
    names = tmp_path / "names.conll"
    names.write_text(as_columns(NAMES), encoding="utf-8")
    sets = ["--set", "model.dim=12", "--set", "train.n_epochs=2"]
    script = EXAMPLE.with_name("tagger.sh")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["sh", script, *[names] * 3, *sets],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = ran.stdout.splitlines()
    assert len([line for line in lines if line.startswith("accuracy ")]) == 2  # of two models
    assert [line.split("\t")[0] for line in lines if "\t" in line] == [
        *("Ada", "Lovelace", "was", "born", "in", "London", "."),
    ]
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"ner", "plain"}
