"""Create `made/tf-hub`: the variables of a TF-Hub module, written by bilm, and bilm's vectors.

Run it with bilm 0.1.post5 and TensorFlow 2.15: `python tests/parity/make_tf_hub.py
tests/parity/made`. Google's module and DeepPavlov's have the variables of this graph, as the log of
https://github.com/tensorflow/hub/issues/88 shows.
"""

import sys
from pathlib import Path

import bilm.model
import numpy as np
import tensorflow.compat.v1 as tf
from bilm.data import UnicodeCharsVocabulary

tf.disable_eager_execution()
bilm.model.tf = tf
made = Path(sys.argv[1])
folder, out = made / "relu-2layers", made / "tf-hub"
(out / "variables").mkdir(parents=True, exist_ok=True)
ids = tf.placeholder("int32", (None, None, 50))
network = bilm.model.BidirectionalLanguageModel(
    str(folder / "options.json"), str(folder / "weights.hdf5"), max_batch_size=2
)
layers = network(ids)["lm_embeddings"]  # (B, 3, T, D)
with tf.variable_scope("aggregation"):
    weights = tf.get_variable("weights", initializer=tf.constant([0.7, -0.4, 1.1]))
    scaling = tf.get_variable("scaling", initializer=tf.constant(1.3))
shares = tf.reshape(tf.nn.softmax(weights), (1, 3, 1, 1))
mixed = scaling * tf.reduce_sum(layers * shares, axis=1)
(out / "words.txt").write_text("<S>\n</S>\n<UNK>\n")
characters = UnicodeCharsVocabulary(str(out / "words.txt"), 50)
(out / "words.txt").unlink()
text = (folder / "sentences.txt").read_text(encoding="utf-8")
(out / "sentences.txt").write_text(text, encoding="utf-8")
found = {}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    states = [each.initializer for each in tf.global_variables() if "/Variable" in each.name]
    for k, line in enumerate(text.splitlines()):
        session.run(states)
        batch = characters.encode_chars(line.split(), split=False)[None] + 1
        found[f"s{k}"] = session.run(mixed, {ids: batch})[0]
    session.run(states)
    prefix = str(out / "variables" / "variables")
    tf.train.Saver().save(session, prefix, write_meta_graph=False)
(out / "variables" / "checkpoint").unlink()
(out / "saved_model.pb").write_bytes(b"")
np.savez_compressed(out / "mixed.npz", **found)
