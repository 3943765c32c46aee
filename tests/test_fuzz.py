"""A short, seeded run of `make fuzz`: the same damaged files everywhere."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")
def test_damaged_files_of_every_format_are_accepted_or_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--cases", "120", "--seed", "3", "--keep", tmp_path],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert len(counts) >= 25
    assert sum(sum(outcomes.values()) for outcomes in counts.values()) == 120
