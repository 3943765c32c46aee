"""The README shows every verb, in the order of `elmo --help`; tests/docs runs its code."""

from elmo.cli.main import VERBS
from tests.docs.pages import ROOT, blocks_of, commands_of


def test_the_readme_shows_every_verb():
    blocks = blocks_of(ROOT / "README.md")
    commands = [words for block in blocks if block.language == "sh" for words in commands_of(block)]
    assert [words[0] for words in commands] == list(VERBS)
    assert any(block.language == "python" for block in blocks)
