"""The tagger's network."""

import torch

from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.tagging.data import TaggedSentence
from elmo.tasks.train import build_trained

EXAMPLES = [TaggedSentence(("Ann", "Lee", "ran"), ("B-PER", "I-PER", "O"))]


def test_dropout_is_of_the_inputs_of_both_layers_and_not_of_their_output():
    task = find_task("ner")
    sets = ["model.dropout=0.5", "model.dim=32", "words.min_count=1"]
    config = read_config(task.defaults(), None, sets, has_elmo=False)
    model = build_trained(task, config, EXAMPLES, None).model.train()
    n_dropped = {}  # columns that are zero for all tokens, by module

    def count(name):
        def hook(module, arguments):
            n_dropped[name] = int((arguments[0] == 0).all(1).sum())

        return hook

    first, second = model.encoder.forward_layers
    for name, module in (("first", first), ("second", second), ("output", model.scores)):
        module.register_forward_pre_hook(count(name))
    torch.manual_seed(1)
    model.loss(EXAMPLES)
    assert n_dropped["first"] > 10
    assert n_dropped["second"] > 10
    assert n_dropped["output"] == 0
