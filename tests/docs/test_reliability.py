"""The page on reliability: its counts are those of the last soak test, its tests exist."""

import json
import re

from tests.conftest import ROOT
from tools.soak import TESTS, describe

PAGE = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")


def test_counts_are_those_of_the_last_run_and_every_part_passed():
    results = json.loads((ROOT / "docs/benchmarks/soak.json").read_text(encoding="utf-8"))
    assert results.keys() == {"load", "fuzz", *TESTS}
    for name, result in results.items():
        assert describe(name, result) in PAGE
        assert result["is_passed"]


def test_every_test_that_is_named_exists():
    for line in PAGE.splitlines():
        folder = None
        for name in re.findall(r"`([\w/]*test_\w+\.py)`", line):
            path = ROOT / name if "/" in name else folder / name
            assert path.is_file(), name
            folder = path.parent
    for paths in TESTS.values():
        for path in paths:
            file_name, _, function = path.partition("::")
            assert f"def {function}" in (ROOT / file_name).read_text(encoding="utf-8")
