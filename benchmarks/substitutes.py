"""Which rule ranks substitutes best: the rank of the true word among all words of the vocabulary.

In: held-out text. Out: a table, and JSON: for content words of held-out sentences, whose position
is scored as if the word were unknown, the median rank of the true word and recall@1 and @10.

    python -m benchmarks.substitutes english heldout.txt --json docs/benchmarks/substitutes.json
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo import Elmo
from elmo.inference.occurrence import Occurrence
from elmo.inference.scoring import combine, fit, predict
from elmo.text import read_sentences

# Words up to this rank are mostly function words and punctuation.
FIRST_CONTENT_RANK = 200
Rule = Callable[[list[Tensor]], Tensor]
RULES: dict[str, Rule] = {
    "forward": lambda both: both[0].clone(),
    "backward": lambda both: both[-1].clone(),
    "mean of log-probabilities": combine,
    "forward + backward - log P(word)": fit,
}


def main() -> None:
    """Measure all rules on the same positions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    elmo = Elmo.load(options.model)
    occurrences = choose(elmo, options.text, options.words)
    ranks: dict[str, list[int]] = {name: [] for name in RULES}
    for start in range(0, len(occurrences), 20):
        for name, found in rank(elmo, occurrences[start : start + 20]).items():
            ranks[name] += found
    report = {name: summarize(np.array(found)) for name, found in ranks.items()}
    print(f"{len(occurrences)} content words of {options.text.name}")
    print("| rule | median rank | recall@1 | recall@10 |\n|---|---|---|---|")
    for name, row in report.items():
        recalls = f"{row['recall@1']:.3f} | {row['recall@10']:.3f}"
        print(f"| {name} | {row['median_rank']:.0f} | {recalls} |")
    if options.json is not None:
        whole = {"model": options.model, "words": len(occurrences), "rules": report}
        options.json.write_text(json.dumps(whole, indent=1) + "\n")


def choose(elmo: Elmo, text: Path, n_words: int) -> list[Occurrence]:
    """One content word from each of up to `n_words` sentences, drawn with a fixed seed."""
    assert elmo.model.vocabulary is not None
    sentences = [tokens for tokens in read_sentences([text]) if 6 <= len(tokens) <= 40]
    generator = random.Random(1)
    generator.shuffle(sentences)
    found: list[Occurrence] = []
    for tokens in sentences:
        ids = elmo.model.vocabulary.ids(tokens)
        content = [
            k
            for k, (token, number) in enumerate(zip(tokens, ids, strict=True))
            if token.isalpha() and number > FIRST_CONTENT_RANK
        ]
        if content:
            found.append(Occurrence(tokens, generator.choice(content)))
        if len(found) == n_words:
            break
    return found


@torch.inference_mode()
def rank(elmo: Elmo, occurrences: list[Occurrence]) -> dict[str, list[int]]:
    """The rank of the true word by each rule."""
    model = elmo.model
    assert model.head is not None
    assert model.vocabulary is not None
    ordered = sorted(occurrences, key=lambda each: -len(each.tokens))
    predictions = predict(elmo.embedder, [each.tokens for each in ordered])
    rows = predictions.at([each.position for each in ordered])
    both = [model.head.log_probs(hidden) for hidden in rows]
    words = [each.tokens[each.position] for each in ordered]
    true = torch.from_numpy(model.vocabulary.ids(words))[:, None]
    return {name: list(_ranks(rule(both), true)) for name, rule in RULES.items()}


def _ranks(scores: Tensor, true: Tensor) -> Iterator[int]:
    scores[:, :3] = -torch.inf
    yield from ((scores > scores.gather(1, true)).sum(1) + 1).tolist()


def summarize(ranks: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> dict[str, float]:
    """Median rank, recall@1 and recall@10."""
    return {
        "median_rank": float(np.median(ranks)),
        "recall@1": float((ranks <= 1).mean()),
        "recall@10": float((ranks <= 10).mean()),
    }


if __name__ == "__main__":
    main()
