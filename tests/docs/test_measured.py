"""The numbers of README and docs/benchmarks.md are those of the stored results."""

import re

import pytest

from benchmarks.blocks import BLOCK, BLOCKS, fill
from benchmarks.tables import PAGES
from tests.docs.pages import ROOT

NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
# Not a measurement: code, the address of a link, a version, a name that has digits in it.
NOT_MEASURED = re.compile(
    r"```.*?```|`[^`]*`|\]\([^)]*\)|\d+\.\d+\.\d+|[\w-]*[A-Za-z]-?\d[\w.-]*", re.S
)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_blocks_of_the_page_are_what_the_results_say(page):
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text, "run python -m benchmarks.tables"


def test_every_block_is_on_a_page_and_every_page_has_one():
    used = [{match[2] for match in BLOCK.finditer(page.read_text())} for page in PAGES]
    assert set().union(*used) == set(BLOCKS)
    assert all(used)


def test_no_number_of_the_benchmarks_stands_outside_a_block():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    typed = NOT_MEASURED.sub("", BLOCK.sub("", text))
    assert re.findall(r".*\d.*", typed) == []


def test_a_changed_number_is_found():
    (name,) = (name for name in BLOCKS if name == "training-rate")
    page = f"tokens/s: <!-- measured: {name} -->1<!-- end -->."
    assert fill(page) == f"tokens/s: <!-- measured: {name} -->{BLOCKS[name]()}<!-- end -->."
