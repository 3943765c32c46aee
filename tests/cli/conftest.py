"""The command line as a user runs it: exit code, standard output, standard error."""

import io
import sys
from types import SimpleNamespace

import pytest

from elmo.cli.main import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `elmo` with arguments and standard input; the result has code, out and err."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        written = capsys.readouterr()
        return SimpleNamespace(code=left.value.code or 0, out=written.out, err=written.err)

    return run


@pytest.fixture
def refused(run):
    """Run `elmo`, check that it fails with one line and exit code 2, and return that line."""

    def refused(*arguments, stdin=b""):
        result = run(*arguments, stdin=stdin)
        assert result.code == 2
        assert result.out == ""
        assert result.err.startswith("error: ")
        assert result.err.count("\n") == 1
        return result.err

    return refused
