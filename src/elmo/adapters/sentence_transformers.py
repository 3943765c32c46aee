"""sentence-transformers: ELMo as the first module of a `SentenceTransformer`, before pooling, or
of a `MultiVectorEncoder`, which compares texts token by token.

In: texts. Out: `token_embeddings` (B, T, D) and `attention_mask` (B, T), as its other modules
expect them. The mix of the layers is trained with the modules above; the biLM only with
`fine_tune`.
Shapes: B texts, T tokens of the longest, S sentences of all texts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.api import Elmo
from elmo.errors import needs_extra
from elmo.models import ENGLISH, model_folder
from elmo.models.model_folder import Model
from elmo.text.batches import Batch
from elmo.text.tokenizer import split_text

with needs_extra("sentence-transformers"):
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import InputModule, Normalize

MODEL, MIX = "elmo", "mix.safetensors"


class ElmoModule(InputModule):
    """Texts to token vectors: `SentenceTransformer(modules=[ElmoModule(...), ...])`."""

    config_keys = ("fine_tune",)
    config_file_name = "elmo_module.json"
    save_in_root = False
    tokenizer = None  # `MultiVectorMask` reads it; ELMo's tokens have no ids

    def __init__(self, model: str | Path | Elmo = ENGLISH, *, fine_tune: bool = False) -> None:
        super().__init__()
        elmo = model if isinstance(model, Elmo) else Elmo.load(model)
        self.fine_tune = fine_tune
        self.layer = elmo.layer(dropout=0.0, fine_tune=fine_tune)

    def get_embedding_dimension(self) -> int:
        """Width of a token's vector, which the pooling module needs."""
        return self.layer.output_dim

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: object
    ) -> dict[str, Tensor]:
        """Encode texts: their sentences as a `Batch`, and the index of each token in its output."""
        texts = [[s.tokens for s in split_text((prompt or "") + text)] for text in inputs]
        sentences = [tokens for text in texts for tokens in text]
        batch = self.layer.bilm.word_encoder.batch(sentences)
        n_columns = max(map(len, sentences), default=0)
        first_row = 0
        rows = []
        for text in texts:
            places = [
                (first_row + k) * n_columns + place
                for k, tokens in enumerate(text)
                for place in range(len(tokens))
            ]
            rows.append(torch.tensor(places, dtype=torch.int64))
            first_row += len(text)
        return {
            "char_ids": batch.char_ids,
            "word_index": batch.word_index,
            "sentence_lengths": batch.lengths,
            "token_places": torch.nn.utils.rnn.pad_sequence(rows, batch_first=True),  # (B, T)
            "attention_mask": torch.nn.utils.rnn.pad_sequence(
                [torch.ones_like(places) for places in rows], batch_first=True
            ),
        }

    def forward(self, features: dict[str, Tensor], **_: object) -> dict[str, Any]:
        """Add the tokens' vectors to the features."""
        batch = Batch(features["char_ids"], features["word_index"], features["sentence_lengths"])
        vectors = self.layer(batch).mixes[0].flatten(0, 1)  # (S * columns, D)
        tokens = vectors[features["token_places"]]  # (B, T, D)
        return features | {"token_embeddings": tokens * features["attention_mask"][..., None]}

    def save(self, output_path: str, *_: object, **__: object) -> None:
        """Write the model's folder, the mix and the settings."""
        folder = Path(output_path)
        model_folder.save(folder / MODEL, Model(self.layer.bilm))
        save_file(self.layer.mixes.state_dict(), folder / MIX)
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **hub: Any) -> "ElmoModule":  # noqa: ANN401
        """Read what `save` wrote, from a folder or from the hub."""
        names = ("token", "cache_folder", "revision", "local_files_only")
        where = {"subfolder": subfolder, **{name: hub[name] for name in names if name in hub}}
        folder = Path(cls.load_dir_path(model_name_or_path, **where))
        config = cls.load_config(model_name_or_path, **where)
        module = cls(folder / MODEL, fine_tune=config["fine_tune"])
        module.layer.mixes.load_state_dict(load_file(folder / MIX))
        return module


def build_multi_vector_encoder(
    model: str | Path | Elmo = ENGLISH, *, fine_tune: bool = False
) -> MultiVectorEncoder:
    """A `MultiVectorEncoder` with a unit vector per token, which compares texts by MaxSim."""
    normalize = Normalize(module_input_name="token_embeddings")
    return MultiVectorEncoder(modules=[ElmoModule(model, fine_tune=fine_tune), normalize])
