"""Small models with random weights, in exactly the layouts and names of other projects' releases.

Each function takes arrays by their official paths, as returned by `random_models.random_weights`,
and writes the same network in another layout. So each reader can be compared with the official one.
"""

import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import torch

MAGIC = bytes.fromhex("57fb808b247547db")
FLOAT32 = 1


def write_tf_hub(folder, weights, *, mix=(0.5, -0.25, 1.0), gamma=1.5, names="google"):
    """A TF-Hub module: `saved_model.pb` and `variables/`; a 262nd row of characters, no options."""
    variables = {}
    for path, values in weights.items():
        if path == "char_embed":
            values = np.pad(values, ((1, 0), (0, 0)))
        for theirs, hub in (("W_P_0", "projection/kernel"), ("W_0", "kernel"), ("B", "bias")):
            path = path.replace(f"/LSTMCell/{theirs}", f"/rnn/lstm_cell/{hub}")
        variables[f"bilm/{path}"] = values
    scopes = {
        "google": ("aggregation/weights", "aggregation/scaling"),
        "deeppavlov": ("aggregation/elmo_output_ELMo_W", "aggregation/elmo_output_ELMo_gamma"),
    }
    variables[scopes[names][0]] = np.array(mix, np.float32)
    variables[scopes[names][1]] = np.array(gamma, np.float32).reshape(
        () if names == "google" else 1
    )
    for k in range(8):  # the states that its LSTMs were left in
        variables["bilm/Variable" + (f"_{k}" if k else "")] = np.ones((4, 3), np.float32)
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"\x08\x01")
    write_bundle(folder / "variables" / "variables", variables)
    return folder


def write_bundle(prefix, variables):
    """TensorFlow's checkpoint files of version 2, one data file."""
    content, entries = b"", []
    for name in sorted(variables):
        values = np.ascontiguousarray(variables[name], np.float32)
        shape = b"".join(_field(2, _field(1, size)) for size in values.shape)
        entry = _field(1, FLOAT32) + _field(2, shape) + _field(4, len(content))
        entries.append((name.encode(), entry + _field(5, values.nbytes)))
        content += values.tobytes()
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(content)
    data = _block([(b"", _field(1, 1)), *entries])
    index = _block([(b"\xff", _varint(0) + _varint(len(data)))])
    start = len(data) + 5
    footer = _varint(0) + _varint(0) + _varint(start) + _varint(len(index))
    table = data + bytes(5) + index + bytes(5) + footer.ljust(40, b"\0") + MAGIC
    prefix.with_name(prefix.name + ".index").write_bytes(table)


def write_allennlp(folder, weights, *, mixes=(((0.5, -0.25, 1.0), 1.5),), around=None):
    """A folder as `model.tar.gz` unpacks to: config.json, weights.th, vocabulary/."""
    folder.mkdir(parents=True, exist_ok=True)
    state = allennlp_state(weights, mixes)
    prefix = "text_field_embedder.token_embedder_elmo._elmo." if around is None else around
    state = {prefix + name: tensor for name, tensor in state.items()}
    state["encoder._module.weight_ih_l0"] = torch.ones(2, 3)  # of the task's own model
    torch.save(state, folder / "weights.th")
    config = {"model": {"type": "crf_tagger", "text_field_embedder": {"elmo": {}}}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocabulary").mkdir(exist_ok=True)
    (folder / "vocabulary" / "labels.txt").write_text("O\nB-PER\n")
    return folder


def allennlp_state(weights, mixes=()):
    """The state of AllenNLP's `Elmo` module with these weights."""
    state = {}
    for path, values in weights.items():
        convert = _allennlp_cell if path.startswith("RNN") else _allennlp_tokens
        state |= dict(convert(path, values, weights))
    for k, (layers, gamma) in enumerate(mixes):
        state[f"scalar_mix_{k}.gamma"] = np.array([gamma], np.float32)
        for j, value in enumerate(layers):
            state[f"scalar_mix_{k}.scalar_parameters.{j}"] = np.array([value], np.float32)
    return {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in state.items()}


def _allennlp_tokens(path, values, weights):
    tokens = "_elmo_lstm._token_embedder."
    part = "weight" if "/W" in path else "bias"
    if path == "char_embed":
        yield tokens + "_char_embedding_weights", np.pad(values, ((1, 0), (0, 0)))
    elif path.startswith("CNN/"):
        kernel = values[0].transpose(2, 1, 0) if part == "weight" else values
        yield f"{tokens}char_conv_{path[10:]}.{part}", kernel
    elif path.startswith("CNN_proj"):
        yield f"{tokens}_projection.{part}", values.T
    elif path.endswith("_transform"):
        carry = -weights[path.replace("transform", "carry")]
        name = f"{tokens}_highways._layers.{path.split('/')[0][9:]}.{part}"
        yield name, np.concatenate([values.T, carry.T])


def _allennlp_cell(path, values, _):
    direction, depth = ("forward", "backward")[int(path[4])], path.split("/")[3][4:]
    name = f"_elmo_lstm._elmo_lstm.{direction}_layer_{depth}."
    if path.endswith("W_P_0"):
        yield name + "state_projection.weight", values.T
    elif path.endswith("W_0"):
        half = len(values) // 2
        yield name + "input_linearity.weight", _gates(values[:half].T)
        yield name + "state_linearity.weight", _gates(values[half:].T)
    else:
        bias = _gates(values).copy()
        bias[len(bias) // 4 : len(bias) // 2] += 1  # the forget bias is in their files
        yield name + "state_linearity.bias", bias


def pack(folder, path, inside=""):
    """Pack all files of a folder into an archive of the kind that its extension names."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.writestr(f"{inside}{file.relative_to(folder)}", file.read_bytes())
        return path
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for file in files:
            archive.add(file, inside + str(file.relative_to(folder)))
    return path


def tar_bytes(members):
    """A .tar.gz of (TarInfo, content) pairs, whatever they claim."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for member, data in members:
            archive.addfile(member, None if data is None else io.BytesIO(data))
    return gzip.compress(content.getvalue())


def _gates(values):
    """TensorFlow's gates (input, candidate, forget, output) in AllenNLP's order."""
    entering, candidate, forgetting, leaving = np.split(values, 4)
    return np.concatenate([entering, forgetting, candidate, leaving])


def _varint(number):
    content = b""
    while number > 0x7F:
        content += bytes([number & 0x7F | 0x80])
        number >>= 7
    return content + bytes([number])


def _field(number, value):
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _block(pairs):
    content = b"".join(
        _varint(0) + _varint(len(key)) + _varint(len(value)) + key + value for key, value in pairs
    )
    return content + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
