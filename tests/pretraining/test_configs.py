"""Every settings file in configs/ is one that a run can start from."""

from pathlib import Path

import pytest

from elmo.pretraining.config import read_config

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_loads(path: Path) -> None:
    assert read_config(None, path, []).model.lstm.n_layers > 0
