"""Random models in ELMoForManyLangs' layout, written from its file formats alone."""

import json

import torch

FILTERS = [[1, 4], [2, 5], [3, 6]]
CHARACTERS = "abcdefghinotw.ÜßçéΩ東京🙂"
WORDS = ["bow", "the", "東京", "naïve", "<S>", "."]


def write_model(
    folder,
    *,
    seed=0,
    word_dim=5,
    char_dim=4,
    dim=7,
    projection_dim=6,
    n_layers=2,
    n_highway=2,
    activation="relu",
    max_characters=20,
    clip=3,
    name="tiny.json",
):
    """Write a folder; weights are large enough for clips to act, but not to amplify rounding."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator) * (2 if len(shape) > 1 else 0.5)

    words = ["<oov>", "<bos>", "<eos>", "<pad>", *WORDS]
    # Their reserved characters come last, as in models they trained.
    characters = [*CHARACTERS, "\u3000", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    write_dictionary(folder / "word.dic", words)
    n_filters = sum(number for _, number in FILTERS)
    tokens, width = {}, 0
    if word_dim:
        tokens["word_emb_layer.embedding.weight"] = random(len(words), word_dim)
        width += word_dim
    if char_dim:
        write_dictionary(folder / "char.dic", characters)
        tokens["char_emb_layer.embedding.weight"] = random(len(characters), char_dim)
        for k, (span, number) in enumerate(FILTERS):
            tokens[f"convolutions.{k}.weight"] = random(number, char_dim, span)
            tokens[f"convolutions.{k}.bias"] = random(number)
        for k in range(n_highway):
            tokens[f"highways._layers.{k}.weight"] = random(2 * n_filters, n_filters) / 4
            tokens[f"highways._layers.{k}.bias"] = random(2 * n_filters)
        width += n_filters
    tokens["projection.weight"] = random(projection_dim, width) / 40
    tokens["projection.bias"] = random(projection_dim)
    encoder = {}
    for direction in ("forward", "backward"):
        for depth in range(n_layers):
            layer = f"{direction}_layer_{depth}"
            encoder[f"{layer}.input_linearity.weight"] = random(4 * dim, projection_dim) / 4
            encoder[f"{layer}.state_linearity.weight"] = random(4 * dim, projection_dim) / 4
            encoder[f"{layer}.state_linearity.bias"] = random(4 * dim)
            encoder[f"{layer}.state_projection.weight"] = random(projection_dim, dim) / 2
    torch.save(tokens, folder / "token_embedder.pkl")
    torch.save(encoder, folder / "encoder.pkl")
    configuration = {
        "encoder": {
            "name": "elmo",
            "dim": dim,
            "projection_dim": projection_dim,
            "n_layers": n_layers,
            "cell_clip": clip,
            "proj_clip": clip,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": activation,
            "filters": FILTERS,
            "n_highway": n_highway,
            "word_dim": word_dim,
            "char_dim": char_dim,
            "max_characters_per_token": max_characters,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }
    (folder / name).write_text(json.dumps(configuration))
    (folder / "config.json").write_text(json.dumps({"config_path": f"/home/them/{name}"}))
    return folder


def write_dictionary(path, entries):
    lines = (f"{entry}\t{number}\n" for number, entry in enumerate(entries))
    path.write_text("".join(lines), encoding="utf-8")
