import json

import numpy as np
import pytest

from elmo.errors import DataError
from elmo.probes.frequency import log_frequencies
from elmo.probes.pairs import measure, prefer, read_pairs


def blimp(good, bad, uid="number", term="agreement", field="syntax"):
    keys = ("sentence_good", "sentence_bad", "UID", "linguistics_term", "field")
    return json.dumps(dict(zip(keys, (good, bad, uid, term, field), strict=True)))


LINES = [
    blimp("The dog runs.", "The dog run."),
    blimp("The dogs run.", "The dogs runs.", uid="plural"),
    blimp("The archer runs.", "The archer runs.", term="none", field="semantics"),
    blimp("The.", "The dog runs.", term="none", field="semantics"),
]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "pairs.jsonl").write_text("\n".join(LINES) + "\n\n")
    return tmp_path / "pairs.jsonl"


def test_accuracies_are_those_of_the_scores_one_by_one(language_model, path):
    result = measure(language_model, path)
    assert list(result.columns) == ["forward", "backward", "both", "frequency", "shorter"]
    assert list(result.rows) == ["agreement", "none", "all"]
    pairs = read_pairs(path, "phenomenon")
    for column, contexts in enumerate((["forward"], ["backward"], ["forward", "backward"])):
        preferred = []
        for pair in pairs:
            good, bad = language_model.score_tokens([list(pair.good), list(pair.bad)])
            difference = sum(good.log_prob(c) - bad.log_prob(c) for c in contexts)
            preferred.append(0.5 if pair.good == pair.bad else float(difference > 0))
        assert result.rows["agreement"][column] == pytest.approx(50 * sum(preferred[:2]))
        assert result.rows["all"][column] == pytest.approx(25 * sum(preferred))


def test_baselines_prefer_frequent_words_and_short_sentences(language_model, path):
    rows = measure(language_model, path).rows
    assert rows["agreement"][3] == 50  # runs is more frequent than run: right in one of two pairs
    assert rows["none"][4] == 75  # a tie counts half, and the shorter one is right


@pytest.mark.parametrize(
    ("group", "names"), [("field", ["semantics", "syntax"]), ("paradigm", ["number", "plural"])]
)
def test_pairs_are_grouped_as_asked(language_model, path, group, names):
    assert list(measure(language_model, path, group=group).rows) == [*names, "all"]


def test_pairs_without_groups_have_one_row(language_model, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"sentence_good": "The dog.", "sentence_bad": "Dog the."}')
    assert list(measure(language_model, tmp_path / "a.jsonl").rows) == ["all"]


def test_a_tie_counts_half():
    assert (prefer(1.0, 1.0), prefer(2.0, 1.0), prefer(1.0, 2.0)) == (0.5, 1.0, 0.0)


def test_frequencies_fall_with_rank_and_unknown_words_are_as_rare_as_the_last(language_model):
    found = log_frequencies(language_model, ["the", "dog", "archer", "xyzzy"])
    assert found[0] > found[1] > found[2] == found[3]
    assert (np.exp(found) < 1).all()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "expected texts in sentence_good"),
        ('{"sentence_good": "a", "sentence_bad": ""}', "expected texts"),
        ('{"sentence_good": "a", "sentence_bad": 3}', "expected texts"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, message):
    (tmp_path / "a.jsonl").write_text(f"{LINES[0]}\n{line}\n")
    with pytest.raises(DataError, match=f"a.jsonl:2: .*{message}"):
        read_pairs(tmp_path / "a.jsonl", "field")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(DataError, match="no pairs"):
        read_pairs(tmp_path / "a.jsonl", "field")
