"""Perplexity before and after fine-tuning on task text, as in a table of the paper.

Reads task text (SNLI, SQuAD questions and contexts, SST, WNUT) from a data folder, fine-tunes a
model on each training part for some epochs and evaluates it on the development part.
usage: python -m benchmarks.finetune MODEL --out FOLDER [--data FOLDER] [--kinds snli,sst]
           [--epochs 1]
"""

import argparse
import json
import lzma
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from elmo.files.text_files import read_lines
from elmo.models import formats
from elmo.pretraining.finetune import Finetuned, finetune_model, read_finetune_config
from elmo.pretraining.pretrain import open_texts
from elmo.tasks.sentiment.data import read_tree
from elmo.tasks.tagging.data import TaggingDataConfig, read_tagged
from elmo.text.lines import LineFormat
from elmo.training.budget import Budget
from elmo.training.distributed import join_processes

DATA = Path(__file__).parent.parent.parent / "shared" / "data"


def read_snli(folder: Path, part: str) -> Iterator[str]:
    """Premises and hypotheses, each once."""
    lines = (folder / "nli" / "counterfactual-snli" / f"{part}.tsv").read_text().splitlines()[1:]
    yield from dict.fromkeys(text for line in lines for text in line.split("\t")[:2])


def read_sst(folder: Path, part: str) -> Iterator[str]:
    """The words of the trees, already tokenized."""
    path = folder / "research-only" / "sst" / f"{part}.txt"
    for number, line in enumerate(read_lines(path), start=1):
        yield " ".join(read_tree(line, path, number)[0].tokens)


def read_wnut(folder: Path, part: str) -> Iterator[str]:
    """Sentences, from the words in the first column."""
    path = folder / "ner" / "wnut17" / f"{part}.conll"
    for sentence in read_tagged(path, TaggingDataConfig()):
        yield " ".join(sentence.tokens)


def _squad(folder: Path, part: str) -> Iterator[dict[str, object]]:
    with lzma.open(folder / "squad" / f"{part}.json.xz", "rt") as file:
        for article in json.load(file)["data"]:
            yield from article["paragraphs"]


def read_contexts(folder: Path, part: str) -> Iterator[str]:
    """SQuAD's paragraphs."""
    for paragraph in _squad(folder, part):
        yield str(paragraph["context"]).replace("\n", " ")


def read_questions(folder: Path, part: str) -> Iterator[str]:
    """SQuAD's questions."""
    for paragraph in _squad(folder, part):
        questions = paragraph["qas"]
        assert isinstance(questions, list)
        yield from (question["question"].strip() for question in questions)


# The reader of each kind of text, and the paper's perplexities before and after one epoch.
KINDS: dict[str, tuple[Callable[[Path, str], Iterator[str]], str]] = {
    "snli": (read_snli, "72.1 -> 16.8"),
    "squad-contexts": (read_contexts, "99.1 -> 43.5"),
    "squad-questions": (read_questions, "158.2 -> 52.0"),
    "sst": (read_sst, "131.5 -> 78.6"),
    "wnut": (read_wnut, "-"),
}
LINES: dict[str, LineFormat] = {"sst": "tokens", "wnut": "tokens"}


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write one text per line, each a separate document; leave an identical file untouched."""
    text = "".join(f"{line}\n\n" for line in lines if line)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def tune(model: Path, kind: str, data: Path, out: Path, n_epochs: float) -> Finetuned | None:
    """Fine-tune a model on one kind of text; None if it was stopped."""
    read, _ = KINDS[kind]
    for part in ("train", "dev"):
        write_lines(out / "text" / f"{kind}-{part}.txt", read(data, part))
    sets = [f"train.n_epochs={n_epochs}", "stream.batch_size=16", "optimizer.learning_rate=1e-3"]
    start = formats.read(model)
    config = read_finetune_config(start, None, sets)
    processes = join_processes()
    files = [str(out / "text" / f"{kind}-{part}.txt") for part in ("train", "dev")]
    texts = open_texts(files[0], files[1], out / "cache", processes, LINES.get(kind, "paragraphs"))
    return finetune_model(start, config, texts, out / kind, Budget(), processes)


def main() -> None:
    """Fine-tune on all kinds of text and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--kinds", default="snli,squad-questions,sst,wnut")
    parser.add_argument("--epochs", type=float, default=1.0)
    settings = parser.parse_args()
    print("| text | unknown words | before | after | the paper, its model |")
    print("|---|---|---|---|---|")
    for kind in settings.kinds.split(","):
        result = tune(settings.model, kind, settings.data, settings.out, settings.epochs)
        assert result is not None
        print(
            f"| {kind} | {result.after.unknown_rate:.1%} | {result.before.mean:.1f} | "
            f"{result.after.mean:.1f} | {KINDS[kind][1]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
