"""Parse and run the fenced blocks of README and docs/.

A page is a script: its `python` blocks and the quick `elmo` lines of its `sh` blocks run in
order, in one namespace and one folder. A block after a line `<!-- not run in the tests: why -->`,
which the site does not show, is not run; its `elmo` lines are still parsed.
"""

import ast
import re
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click

import elmo
from elmo.cli.main import cli

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHIPPED_MODEL = Path(elmo.__file__).parent / "models" / "english" / "config.json"
# Verbs that are fast with a tiny model.
QUICK = ("embed", "score", "index", "neighbors", "evaluate", "export-static", "convert", "info")
# Optional libraries; a page is skipped if it imports one that is not installed.
OPTIONAL = {
    "flair",
    "gensim",
    "huggingface_hub",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pyarrow",
    "ray",
    "sentence_transformers",
    "sklearn",
    "spacy",
}


@dataclass(frozen=True)
class Block:
    """A fenced block, and the line of its page that it begins at."""

    language: str
    text: str
    line: int
    not_run: str = ""  # the reason, if it is not run

    @property
    def is_run(self) -> bool:
        return not self.not_run


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(
        r"(?:^<!-- not run in the tests: (.*) -->\n)?^```(\S*)\n((?s:.*?))^```$",
        text,
        flags=re.MULTILINE,
    )
    return [Block(m[2], m[3], text.count("\n", 0, m.start(3)) + 1, m[1] or "") for m in found]


def commands_of(block: Block) -> list[list[str]]:
    """The arguments of each `elmo` command, at any position in a line."""
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        cuts = [k for k, word in enumerate(words) if word in ("|", ">", "&&")]
        for first, last in zip([0, *(k + 1 for k in cuts)], [*cuts, len(words)], strict=True):
            part = words[first:last]
            is_module = "-m" in part[:-1] and part[part.index("-m") + 1] == "elmo"
            start = part.index("elmo") if is_module else 0
            if part[start : start + 1] == ["elmo"]:
                found.append(part[start + 1 :])
    return found


def parse(words: list[str]) -> list[str]:
    """Check a command against the real command line; return the arguments to run it with."""
    command: click.Command = cli
    n_names = 0  # the verb, and its subcommand if it has one
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[n_names])
        assert found is not None, f"{command.name} has no verb {words[n_names]}"
        command, n_names = found, n_names + 1
    options = {name for parameter in command.params for name in parameter.opts}
    names_model = {"-m", "--model"} & set(words)
    if "--model" in options and not names_model and not SHIPPED_MODEL.exists():
        words = [*words, "--model", "model"]
    command.make_context(" ".join(words[:n_names]), words[n_names:])
    return words


def missing_library(page: Path) -> str | None:
    """An optional library that a page imports and that is not installed, or None."""
    for block in blocks_of(page):
        if block.language == "python" and block.is_run:
            named = set(re.findall(r"^(?:import|from) (\w+)", block.text, flags=re.MULTILINE))
            named |= set(re.findall(r"^import \w+, (\w+)", block.text, flags=re.MULTILINE))
            for library in sorted(named & OPTIONAL):
                if find_spec(library) is None:
                    return library
    return None


def run_python(block: Block, page: Path, names: dict[str, object]) -> None:
    """Run a block statement by statement; compare the value of an expression with its comment.

    If the package's English model is missing, a tiny one with random weights replaces it, and
    comments with decimal numbers are not checked.
    """
    text, is_stand_in = block.text, False
    if not SHIPPED_MODEL.exists():
        text = text.replace("Elmo.load()", 'Elmo.load("model")')
        is_stand_in = "Elmo.load()" in page.read_text(encoding="utf-8")
    source = "\n" * (block.line - 1) + text
    lines = source.splitlines()
    for statement in ast.parse(source, str(page)).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), page, "exec"), names)
            continue
        value = eval(compile(ast.Expression(statement.value), page, "eval"), names)
        after = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
        comment = after.strip().removeprefix("#").strip()
        if comment and not (is_stand_in and re.search(r"\d\.\d", comment)):
            check_shown(value, comment, f"{page}:{statement.lineno}")


def check_shown(value: object, comment: str, where: str) -> None:
    """Check a comment against the value of its line if it is a Python literal, else ignore it."""
    try:
        shown = ast.literal_eval(comment)
    except (SyntaxError, ValueError):
        return
    if isinstance(shown, float):
        value = round(float(value), len(comment.partition(".")[2]))
    assert value == shown, where
