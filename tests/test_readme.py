"""The README shows every verb, in the order of `elmo --help`; tests/docs runs its code."""

import re
from importlib.metadata import metadata

from elmo.cli.main import VERBS
from tests.docs.pages import ROOT, blocks_of, commands_of


def test_the_readme_shows_every_verb():
    blocks = blocks_of(ROOT / "README.md")
    commands = [words for block in blocks if block.language == "sh" for words in commands_of(block)]
    assert [words[0] for words in commands] == list(VERBS)
    assert any(block.language == "python" for block in blocks)


def test_the_readme_of_the_package_has_no_relative_links():
    text = str(metadata("elmo-torch").get_payload())
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith("https://")] == []
