"""The README's Python runs, and its `elmo` lines are ones that the command line takes."""

import re
import shlex
from pathlib import Path

import click
import pytest

from elmo.cli.main import VERBS, cli, main
from tests.conftest import CORPUS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
PYTHON_BLOCKS = [block for language, block in BLOCKS if language == "python"]
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for language, block in BLOCKS
    for line in block.splitlines()
    if language == "sh" and line.startswith("elmo ")
]
QUICK = ("embed", "convert", "info")


@pytest.fixture
def workplace(official, tmp_path, monkeypatch):
    """A folder with what the README's lines name."""
    monkeypatch.chdir(tmp_path)
    official.rename(tmp_path / "weights.hdf5")
    official.with_name("options.json").rename(tmp_path / "options.json")
    (tmp_path / "text.txt").write_text(CORPUS)


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("block", PYTHON_BLOCKS)
def test_python_of_the_readme_runs_and_gives_what_its_comments_say(block):
    names = {}
    exec(block, names)
    for expression, shown in re.findall(r"^(\S+) +# ([\[].*)$", block, flags=re.MULTILINE):
        assert repr(eval(expression, names)) == shown


@pytest.mark.usefixtures("workplace")
def test_quick_commands_of_the_readme_run():
    for words in COMMANDS:
        if words[0] in QUICK:
            with pytest.raises(SystemExit) as left:
                main(words)
            assert not left.value.code, words


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_options_in_the_readme_exist(words):
    verb = cli.get_command(click.Context(cli), words[0])
    assert verb is not None
    verb.make_context(words[0], words[1:])


def test_the_readme_shows_every_verb():
    assert PYTHON_BLOCKS
    assert [words[0] for words in COMMANDS] == list(VERBS)
