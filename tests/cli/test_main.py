import subprocess
import sys
from typing import get_args

import click
import pytest

from elmo.cli.main import VERBS, cli
from elmo.cli.options import lines_option
from elmo.errors import ElmoError
from elmo.text.lines import LineFormat


def test_help_lists_every_verb(run):
    result = run("--help")
    assert result.code == 0
    assert all(f"\n  {verb} " in result.out for verb in VERBS)


def test_no_arguments_show_the_help(run):
    assert run().out == run("--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(run, verb):
    result = run(verb, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: elmo {verb}")


def test_help_waits_for_none_of_the_heavy_libraries():
    program = (
        "import sys; from elmo.cli.main import VERBS, cli\n"
        "for words in [['--help'], *([verb, '--help'] for verb in VERBS)]:\n"
        "    cli.main(words, standalone_mode=False)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "numpy", "h5py", "regex", "tqdm"} & set(done.stdout.split())


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "elmo", "--version"], capture_output=True)
    assert done.returncode == 0
    assert done.stdout.strip()


def test_an_unknown_verb_is_refused(refused):
    assert "embde" in refused("embde")


def test_a_missing_argument_names_the_help(refused):
    assert "elmo info --help" in refused("info")


def test_debug_shows_where_an_error_came_from(tmp_path):
    with pytest.raises(ElmoError):
        cli.main(["--debug", "info", str(tmp_path / "absent")], standalone_mode=False)


def test_lines_has_the_formats_that_the_library_reads():
    (option,) = click.command()(lines_option(lambda: None)).params
    assert tuple(option.type.choices) == get_args(LineFormat)
