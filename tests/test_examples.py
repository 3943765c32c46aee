"""The notebook-style example runs as a script, with a tiny model."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "senses_and_layers.py"


def test_the_example_draws_its_pictures(scoring_model, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    monkeypatch.setenv("MPLBACKEND", "agg")
    words = ["--model", str(scoring_model), "--out", str(tmp_path / "pictures"), "-f", "kernel"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *words])
    names = runpy.run_path(str(EXAMPLE), run_name="__main__")
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert pictures == {"senses-by-layer.png", "likeness-by-layer.png", "surprise.png"}
    assert len(capsys.readouterr().out.splitlines()) == len(names["layers"])


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
    labelled = [" ".join(pair.rsplit("/", 1)[1] for pair in line.split()) for line in shown]
    assert labelled == [labels for _, labels in names["DATA"]]
