"""`elmo pretrain` on the command line: errors are one line with a hint, and exit code 2."""

import subprocess
import sys

import pytest

from elmo.cli.main import main

TINY = [
    "--lines",
    "tokens",
    "--size",
    "tiny",
    "--set",
    "vocabulary.min_count=1",
    "--max-steps",
    "2",
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.txt").write_text("a cat sat\n\na dog ran\n" * 40)
    (tmp_path / "heldout.txt").write_text("a cat ran\n")
    (tmp_path / "other.txt").write_text("quite different words\n")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)))
    return tmp_path


def pretrain(folder, *more, train="train.txt", heldout="heldout.txt"):
    with pytest.raises(SystemExit) as end:
        main(
            [
                "pretrain",
                *("--train", str(folder / train), "--heldout", str(folder / heldout)),
                *("--out", str(folder / "run"), *TINY, *more),
            ]
        )
    return end.value.code


def test_a_run_leaves_a_model_and_says_where(folder, capsys):
    assert pretrain(folder) in (0, None)
    assert "run/model: held-out perplexity" in capsys.readouterr().out
    assert (folder / "run" / "model" / "vocab.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "files", "message"),
    [
        (["--set", "stream.bach_size=3"], {}, "did you mean 'batch_size'?"),
        (["--set", "train.dropout=2"], {}, "train.dropout is 2, expected float >= 0 and < 1"),
        (["--set", "stream.reset=often"], {}, "expected never or document or sentence"),
        (["--set", "train.n_accumulate=3"], {}, "expected a multiple of"),
        (["--set", "stream.initial_batch_size=3"], {}, "times a power of two"),
        (["--size", "huge"], {}, "unknown size 'huge'"),
        (["--max-minutes", "0"], {}, "max_minutes is 0.0"),
        ([], {"train": "empty.txt"}, "no words in 1 files"),
        ([], {"train": "none-*.txt"}, "no file matches"),
        ([], {"train": "binary.txt"}, "binary.txt:1: a zero byte"),
        ([], {"heldout": "other.txt"}, "none of 3 held-out words"),
        (
            [],
            {"train": "heldout.txt"},
            "3 words of training text, expected at least",
        ),
    ],
)
def test_what_a_user_can_fix_is_one_line(folder, capsys, arguments, files, message):
    assert pretrain(folder, *arguments, **files) == 2
    errors = capsys.readouterr().err.strip().split("\n")
    assert errors[-1].startswith("error: ")
    assert message in errors[-1]


def test_help_does_not_wait_for_torch():
    code = "import sys; from elmo.cli.main import cli; cli(['pretrain', '--help'], standalone_mode=False); sys.exit('torch' in sys.modules)"  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
