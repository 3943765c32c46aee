"""Create `made/allennlp-archive`: a tuned model as AllenNLP packs it, and AllenNLP's vectors.

Run it with AllenNLP 2.10.1: `python tests/parity/make_allennlp_archive.py tests/parity/made`.
"""

import io
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import torch
from allennlp.modules.elmo import batch_to_ids
from allennlp.modules.token_embedders import ElmoTokenEmbedder

made = Path(sys.argv[1])
folder, out = made / "relu-2layers", made / "allennlp-archive"
out.mkdir(exist_ok=True)
torch.manual_seed(5)
embedder = ElmoTokenEmbedder(
    options_file=str(folder / "options.json"),
    weight_file=str(folder / "weights.hdf5"),
    dropout=0.0,
).eval()
with torch.no_grad():
    mix = embedder._elmo.scalar_mix_0
    mix.gamma.fill_(1.3)
    for parameter, value in zip(mix.scalar_parameters, (0.7, -0.4, 1.1), strict=True):
        parameter.fill_(value)
    for name, parameter in embedder.named_parameters():
        if "scalar" not in name:  # as if a task had tuned the biLM
            parameter.add_(0.01 * torch.randn_like(parameter))
prefix = "text_field_embedder.token_embedder_elmo."
weights = io.BytesIO()
torch.save({prefix + name: tensor for name, tensor in embedder.state_dict().items()}, weights)
option = "model.text_field_embedder.token_embedders.elmo.options_file"
files = {
    "config.json": json.dumps({"model": {"type": "simple_tagger"}}).encode(),
    "weights.th": weights.getvalue(),
    "vocabulary/labels.txt": b"O\n",
    f"fta/{option}": (folder / "options.json").read_bytes(),
}
with tarfile.open(out / "model.tar.gz", "w:gz") as archive:
    for name, content in files.items():
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
text = (folder / "sentences.txt").read_text(encoding="utf-8")
(out / "sentences.txt").write_text(text, encoding="utf-8")
mixed = {}
for k, line in enumerate(text.splitlines()):
    embedder._elmo._elmo_lstm._elmo_lstm.reset_states()
    with torch.no_grad():
        mixed[f"s{k}"] = embedder(batch_to_ids([line.split()]))[0].numpy()
np.savez_compressed(out / "mixed.npz", **mixed)
