"""The readers on complete published data sets, if available."""

import pytest

from elmo.tasks import find_task
from elmo.tasks.config import read_config


def count(name, path, *sets, is_training=True):
    task = find_task(name)
    config = read_config(task.defaults(), None, sets)
    return len(task.read(path, config, is_training=is_training))


@pytest.mark.parametrize(
    ("name", "path", "n_examples"),
    [
        ("ner", "ner/wnut17/train.conll", 3394),
        ("ner", "ner/wnut17/dev.conll", 1009),
        ("ner", "ner/wnut17/test.conll", 1287),
        ("ner", "ner/wikigold.conll", 1696),
        ("pos", "pos/ud-ewt/dev.conllu.xz", 2001),
        ("pos", "pos/ud-ewt/test.conllu.xz", 2077),
        ("nli", "nli/counterfactual-snli/train.tsv", 8330),
        ("nli", "nli/counterfactual-snli/dev.tsv", 1000),
        ("nli", "nli/counterfactual-snli/test.tsv", 2000),
    ],
)
def test_as_many_examples_are_read_as_were_published(shared, name, path, n_examples):
    assert count(name, shared / "data" / path) == n_examples


def test_sicks_one_file_is_its_sets(shared):
    path = shared / "data" / "research-only" / "sick" / "SICK.txt"
    assert count("nli", path) == 4439
    assert count("nli", path, is_training=False) == 495


def test_sentiment_is_measured_with_sentences_and_learned_with_phrases(shared):
    folder = shared / "data" / "research-only" / "sst"
    assert count("sentiment", folder / "dev.txt", is_training=False) == 1101
    assert count("sentiment", folder / "test.txt", is_training=False) == 2210
    assert count("sentiment", folder / "dev.txt", "data.has_phrases=false") == 1101
    assert count("sentiment", folder / "dev.txt") > 10_000
