"""Roles of given predicates and of those that are found."""

import itertools

import pytest
import torch

from elmo.errors import DataError
from elmo.tasks import find_task
from elmo.tasks.nn.crf import transition_constraints, viterbi
from elmo.tasks.saved import open_task
from elmo.tasks.spans import may_follow_iob2
from elmo.tasks.srl.data import Proposition
from elmo.tasks.srl.model import Roles
from tests.tasks.tiny_tasks import TINY_TASKS

TOKENS = ("She", "gave", "him", "a", "bow", ".")


@pytest.fixture
def srl():
    return next(tiny for tiny in TINY_TASKS if tiny.name == "srl")


def test_decoding_finds_the_best_of_all_label_sequences_that_are_whole_spans():
    labels = ["O", "B-V", "I-V", "B-C-V", "I-C-V"]
    torch.manual_seed(2)
    scores = torch.randn(20, 4, len(labels))
    lengths = torch.tensor([4, 3, 2, 1] * 5)
    found = viterbi(scores, lengths, transition_constraints(labels, may_follow_iob2))
    for row, length in enumerate(lengths.tolist()):
        whole = [
            path
            for path in itertools.product(range(len(labels)), repeat=length)
            if all(
                may_follow_iob2(before, after)
                for before, after in itertools.pairwise([None, *(labels[k] for k in path)])
            )
        ]
        best = max(
            whole, key=lambda path: sum(scores[row, t, k].item() for t, k in enumerate(path))
        )
        assert found[row] == list(best)


def test_predicates_are_found_where_none_are_given(train, srl, tmp_path):
    train(srl, "train.n_epochs=30", "train.patience=30")
    opened = open_task(tmp_path / "run")
    given = opened.read(tmp_path / srl.file_name)
    bare = [Proposition(tokens) for tokens in dict.fromkeys(p.tokens for p in given)]
    answers = dict(zip((p.tokens for p in bare), opened.predict(bare), strict=True))
    assert opened.measure(given)["predicate_f1"] > 90
    for proposition, roles in zip(given, opened.predict(given), strict=True):
        answer = answers[proposition.tokens]
        assert tuple(answer.labels) == answer.found == roles.found
        if proposition.predicate in answer.labels:  # the same roles, whoever named the predicate
            assert answer.labels[proposition.predicate] == roles.labels[proposition.predicate]


def test_predicates_can_be_named_after_a_tab():
    lines = ["She gave him a bow. He ran.\tgave ran", "He sang.", "He sang.\t"]
    found = [(p.tokens, p.predicate) for p in find_task("srl").read_text(lines)]
    assert found == [
        (TOKENS, 1),
        (("He", "ran", "."), 1),
        (("He", "sang", "."), None),
        (("He", "sang", "."), None),
    ]


def test_a_predicate_that_is_not_in_the_text_is_refused():
    lines = ["She ran.\tran", "She gave it.\tgive"]
    with pytest.raises(DataError, match="line 2: the predicate 'give' is not a word"):
        list(find_task("srl").read_text(lines))


def test_roles_are_shown_in_brackets_and_as_spans():
    labels = ["B-ARG0", "B-V", "B-ARG2", "B-ARG1", "I-ARG1", "O"]
    example, roles = Proposition(TOKENS, 1), Roles((1,), {1: labels})
    task = find_task("srl")
    assert task.show(example, roles) == "gave: [ARG0 She] [V gave] [ARG2 him] [ARG1 a bow] .\n"
    assert task.to_mapping(example, roles)["frames"] == [
        {
            "predicate": 1,
            "labels": labels,
            "arguments": [
                {"role": "ARG0", "spans": [[0, 1]]},
                {"role": "ARG2", "spans": [[2, 3]]},
                {"role": "ARG1", "spans": [[3, 5]]},
            ],
        }
    ]
    assert task.show(Proposition(TOKENS), Roles((), {})) == "She gave him a bow .\n"
