"""The reader's parts against plain references."""

import pytest
import torch

from elmo.tasks import find_task
from elmo.tasks.saved import open_task
from elmo.tasks.squad.model import Answer, Trilinear, best_spans
from tests.tasks.tiny_tasks import TINY_TASKS


@pytest.mark.parametrize("max_tokens", [1, 3, 50])
def test_the_best_span_is_the_best_of_all(max_tokens):
    torch.manual_seed(1)
    start, end = torch.randn(30, 7), torch.randn(30, 7)
    start[:, 5:] = end[:, 5:] = -1e4  # padding
    spans = [(i, j) for i in range(7) for j in range(i, min(7, i + max_tokens))]
    for row, found in enumerate(best_spans(start, end, max_tokens)):
        assert found == max(spans, key=lambda s: (start[row, s[0]] + end[row, s[1]]).item())


def test_similarity_is_a_weighted_sum_of_both_and_their_product():
    torch.manual_seed(1)
    similarity = Trilinear(4)
    first, second = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    found = similarity(first, second)
    weights = torch.cat([similarity.of_first.weight[0], similarity.of_second.weight[0]])
    for b, t, q in [(0, 0, 0), (1, 2, 4), (0, 1, 3)]:
        one, other = first[b, t], second[b, q]
        slow = weights @ torch.cat([one, other]) + similarity.of_both @ (one * other)
        torch.testing.assert_close(found[b, t, q], slow)


def test_scores_do_not_depend_on_what_else_is_in_the_batch(trained):
    tiny = next(tiny for tiny in TINY_TASKS if tiny.name == "squad")
    folder = trained(tiny)
    opened = open_task(folder / "run")
    examples = opened.read(folder / tiny.file_name)
    with torch.inference_mode():
        together = opened.model._score(examples)
        for row, example in enumerate(examples):
            for alone, several in zip(opened.model._score([example]), together, strict=True):
                n_tokens = len(example.context.offsets)
                torch.testing.assert_close(alone[0], several[row, :n_tokens], rtol=1e-4, atol=1e-5)
                assert (several[row, n_tokens:] <= -1e4).all()


def test_answers_are_shown_with_their_place():
    task = find_task("squad")
    (question,) = task.read_text(["Who sang?\tAnn sang."])
    answer = Answer("Ann", 0, 3)
    assert task.show(question, answer) == "Who sang?\nAnn\n"
    assert task.to_mapping(question, answer) == {
        "id": None,
        "question": "Who sang?",
        "answer": "Ann",
        "start": 0,
        "end": 3,
    }
