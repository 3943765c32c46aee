"""The numbers of the English model that docs/probes.md quotes are those of the stored file."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CARD = json.loads((DOCS / "models" / "english" / "card.json").read_text())
# The row of the table, the column of the probe, and its baselines in order.
QUOTED = [
    ("`pos`, UD EWT", "pos", "accuracy", ["most frequent tag", "static vectors"]),
    (
        "`structure`, UD EWT, UUAS",
        "structure",
        "UUAS",
        ["neighboring words", "random biLM, layer 1"],
    ),
    (
        "`structure`, UD EWT, DSpr.",
        "structure",
        "DSpr.",
        ["neighboring words", "random biLM, layer 1"],
    ),
    ("`wsd`, all five sets", "wsd", "ALL", ["first sense"]),
    ("`senses`, WordNet's examples", "senses", "WordNet's examples", ["chance"]),
]


@pytest.mark.parametrize(("start", "probe", "column", "baselines"), QUOTED)
def test_a_quoted_number_is_the_stored_one(start, probe, column, baselines):
    page = (DOCS / "probes.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith(f"| {start}"))
    _, _, shown_baselines, *layers, _, _ = (cell.strip() for cell in line.split("|"))
    rows = CARD[f"probe/{probe}"]["rows"]
    expected = [f"{rows[f'layer {number}'][column]:.1f}" for number in range(len(layers))]
    assert layers == expected
    found = re.findall(r"\d+\.\d", shown_baselines)
    assert found == [f"{rows[name][column]:.1f}" for name in baselines]
