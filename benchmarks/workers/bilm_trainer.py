"""AI2's trainer, `bilm` on TensorFlow 2.15: `python bilm_trainer.py SENTENCES VOCABULARY BATCHES`.

Trains the small model as the paper does, and prints the tokens per second of each batch after the
third as a line of JSON. Both directions read every token once; a batch is 128 x 20 tokens.
"""

import json
import os
import sys
import tempfile
import time
from itertools import pairwise

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tensorflow

tensorflow.disable_v2_behavior()
tensorflow.logging.set_verbosity("ERROR")
sys.modules["tensorflow"] = tensorflow  # the package is written for TensorFlow 1
from bilm.data import BidirectionalLMDataset, UnicodeCharsVocabulary  # noqa: E402
from bilm.training import train  # noqa: E402

BATCH_SIZE, N_STEPS, N_WARM_UP = 128, 20, 3
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]

sentences_path, vocabulary_path, n_batches = sys.argv[1], sys.argv[2], int(sys.argv[3])
vocabulary = UnicodeCharsVocabulary(vocabulary_path, 50)
options = {
    "bidirectional": True,
    "dropout": 0.1,
    "all_clip_norm_val": 10.0,
    "n_epochs": 1,
    "n_train_tokens": n_batches * BATCH_SIZE * N_STEPS,
    "batch_size": BATCH_SIZE,
    "n_tokens_vocab": vocabulary.size,
    "unroll_steps": N_STEPS,
    "n_negative_samples_batch": 8192,
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 16},
        "filters": FILTERS,
        "max_characters_per_token": 50,
        "n_characters": 261,
        "n_highway": 1,
    },
    "lstm": {
        "cell_clip": 3,
        "dim": 1024,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 128,
        "use_skip_connections": True,
    },
}
started_at = []


class Timed(BidirectionalLMDataset):
    """Records when each batch is passed to the trainer."""

    def iter_batches(self, batch_size, num_steps):  # noqa: ANN001, ANN201 - as it calls them
        """Yield batches, recording the time of each."""
        for batch in super().iter_batches(batch_size, num_steps):
            started_at.append(time.perf_counter())
            yield batch


answers, sys.stdout = sys.stdout, sys.stderr  # the trainer prints its progress
with tempfile.TemporaryDirectory() as folder:
    data = Timed(sentences_path, vocabulary, test=False, shuffle_on_load=True)
    train(options, data, 1, folder, folder)
rates = [BATCH_SIZE * N_STEPS / (after - before) for before, after in pairwise(started_at)]
print(json.dumps(rates[N_WARM_UP:]), file=answers)
