"""Options that several verbs share, each defined once."""

import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from elmo.errors import ConfigError
from elmo.models import ENGLISH

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]
MAX_UNKNOWN_RATE = 0.2


def path_option(*names: str, help: str, required: bool = False) -> Decorator[Any]:
    """A click option that takes a path."""
    return click.option(*names, type=click.Path(path_type=Path), help=help, required=required)


def path_argument(name: str, metavar: str) -> Decorator[Any]:
    """A click argument that takes a path."""
    return click.argument(name, metavar=metavar, type=click.Path(path_type=Path))


def texts_argument(name: str, metavar: str) -> Decorator[Any]:
    """A click argument that takes one or more paths or glob patterns of texts."""
    return click.argument(name, metavar=f"{metavar}...", nargs=-1, required=True)


def warn_if_empty(sources: Iterable[str | Path], n_words: int) -> None:
    """Warn if the sources have no words."""
    if not n_words:
        warnings.warn(f"{', '.join(map(str, sources))}: no words", stacklevel=2)


def warn_of_unknown_words(rate: float) -> None:
    """Warn if so many words are unknown that perplexities cannot be compared."""
    if rate > MAX_UNKNOWN_RATE:
        warnings.warn(
            f"{rate:.0%} of the words are not in the vocabulary and were scored as the unknown "
            "word; do not compare this perplexity with that of a model with another vocabulary",
            stacklevel=2,
        )


def check_folder_name(out: str | Path) -> None:
    """Reject an output folder with a file extension, unless such a folder exists."""
    ending = Path(out).suffix
    if re.fullmatch(r"\.[a-z]\w*", ending, re.IGNORECASE) and not Path(out).is_dir():
        raise ConfigError(
            f"{out}: the output is a folder, expected a name without the file extension {ending}"
        )


def fit_terminal(line: str) -> str:
    """Truncate a line to the width of the terminal if standard output is one."""
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width or not sys.stdout.isatty() else f"{line[: width - 3]}..."


def is_given(name: str) -> bool:
    """Whether this option of the current command was given on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def check_lines_have_text(text: Sequence[str]) -> None:
    """Reject --lines without text files: for an index and for the package's own sentences."""
    is_index = len(text) == 1 and Path(text[0]).is_dir()
    if (not text or is_index) and is_given("lines"):
        raise click.UsageError("--lines is for --text with text files.")


# The model.
model_option = click.option(
    "--model",
    "-m",
    default=ENGLISH,
    show_default=True,
    type=click.Path(path_type=Path),
    help="Model: a folder, a weights.hdf5, an archive, or a name of `elmo models`.",
)


def _parse_alignment(
    ctx: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[int, Path] | None:
    """Parse LAYER=FILE values into files by layer; None if there are none."""
    files: dict[int, Path] = {}
    for value in values:
        layer, _, path = value.partition("=")
        if not (layer.isdecimal() and path):
            raise click.BadParameter(f"{value!r}, expected LAYER=FILE such as 1=best_mapping.pth")
        files[int(layer)] = Path(path)
    return files or None


alignment_option = click.option(
    "--alignment",
    multiple=True,
    metavar="LAYER=FILE",
    callback=_parse_alignment,
    help="Matrix that maps the vectors of a layer into another language's space; repeatable.",
)
options_option = path_option("--options", help="options.json, if not beside the weights.")
softmax_option = path_option("--softmax", help="Official softmax weights.")
vocabulary_option = path_option(
    "--vocabulary", help="Vocabulary of the softmax, one word per line."
)
source_vocabulary_option = path_option(
    "--vocabulary", help="Vocabulary of a TensorFlow checkpoint or token cache, if not beside it."
)
task_bilm_option = path_option(
    "--model", "-m", "bilm", help="The biLM of the task model, if it was moved since training."
)

# The text.
lines_option = click.option(
    "--lines",
    type=click.Choice(["paragraphs", "sentences", "tokens", "residues"]),
    default="paragraphs",
    show_default=True,
    help="What a line of text is: a paragraph (split into sentences), one sentence, the tokens "
    "of one sentence with white space between them, or a protein, whose tokens are its letters.",
)
search_text_option = click.option(
    "--text",
    multiple=True,
    help="Text to search: files, globs, or a folder of `elmo index`.  [default: WordNet's "
    "examples]",
)
glove_option = path_option("--glove", help="Word vectors in the text format of GloVe or word2vec.")

# Vectors and output.
state_option = click.option(
    "--state",
    type=click.Choice(["fresh", "warm", "carry"]),
    default="fresh",
    show_default=True,
    help="Initial LSTM state of a sentence. fresh: zeros; warm: the state after an empty sentence; "
    "carry: the state after the same row of the previous batch.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

# Training runs.
out_option = path_option("--out", required=True, help="Folder of the run.")
config_option = path_option("--config", help="Settings as TOML.")
set_option = click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE", help="A single setting; repeatable."
)


def budget_options(command: Command) -> Command:
    """Add the options that limit a run in time and steps."""
    for option in (
        click.option(
            "--max-steps",
            type=int,
            help="Maximum training steps, including those before a restart.",
        ),
        click.option(
            "--max-minutes",
            type=float,
            help="Maximum training time in minutes, including the time before a restart.",
        ),
    ):
        command = option(command)
    return command


def text_run_options(command: Command) -> Command:
    """Add the options of a run that trains on text: texts, folder, settings and budget."""
    for option in reversed(
        (
            click.option(
                "--train",
                required=True,
                multiple=True,
                metavar="GLOB",
                help="Text files; also .gz and .xz; repeatable.",
            ),
            click.option(
                "--heldout",
                required=True,
                multiple=True,
                metavar="GLOB",
                help="Held-out text files; repeatable.",
            ),
            lines_option,
            out_option,
            config_option,
            set_option,
            budget_options,
        )
    ):
        command = option(command)
    return command
