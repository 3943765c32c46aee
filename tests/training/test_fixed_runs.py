"""Two fixed tiny runs have the losses and scores they had before."""

import json

import pytest

from tests.training.fixed_runs import RECORD, RUNS


@pytest.mark.parametrize("name", RUNS)
def test_a_fixed_run_has_the_numbers_it_had(name, tmp_path):
    found, expected = RUNS[name](tmp_path), json.loads(RECORD.read_text())[name]
    assert [line.keys() for line in found] == [line.keys() for line in expected]
    # Other processors add in another order.
    for line, wanted in zip(found, expected, strict=True):
        assert line == pytest.approx(wanted, rel=1e-5)
