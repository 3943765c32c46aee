"""Hugging Face: save models to its Hub or to local folders, and load them.

In: a model. Out: a folder or repository with the model and its card, and the reverse. The folder is
a model folder, so that `Elmo.load` opens it, too; local folders need no network.
"""

from pathlib import Path

from elmo.api import Elmo
from elmo.errors import needs_extra
from elmo.models import model_folder
from elmo.text import word_encoder

with needs_extra("huggingface"):
    from huggingface_hub import ModelCardData, ModelHubMixin, snapshot_download

LIBRARY = "elmo-torch"
FILES = [
    model_folder.CONFIG,
    model_folder.WEIGHTS,
    model_folder.VOCABULARY,
    model_folder.CARD,
    *word_encoder.LISTS,
]


class HubElmo(ModelHubMixin):
    """A model for the Hub: `save_pretrained`, `push_to_hub`, `from_pretrained`."""

    def __init__(
        self,
        elmo: Elmo,
        *,
        card: str | None = None,
        language: str | None = None,
        license_id: str | None = None,
    ) -> None:
        """Wrap a model; `card` is the text of its card, the others are the card's metadata."""
        self.elmo = elmo
        self.card = card
        self.language = language
        self.license_id = license_id

    def _save_pretrained(self, save_directory: Path) -> None:
        model_folder.save(Path(save_directory), self.elmo.model, card=self._write_card())

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **settings: str | None,
    ) -> "HubElmo":
        folder = Path(model_id)
        if not folder.is_dir():
            found = snapshot_download(
                model_id,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
                allow_patterns=FILES,
            )
            folder = Path(found)
        card = folder / model_folder.CARD
        settings.setdefault("card", card.read_text(encoding="utf-8") if card.is_file() else None)
        return cls(Elmo.load(folder), **settings)

    def _write_card(self) -> str:
        text = self.card or model_folder.default_card(self.elmo.model)
        if text.startswith("---\n"):
            return text  # it has metadata of its own
        metadata = ModelCardData(
            language=self.language,
            license=self.license_id,
            library_name=LIBRARY,
            pipeline_tag="feature-extraction",
            tags=["elmo", "word-embeddings"],
        )
        return f"---\n{metadata.to_yaml()}\n---\n\n{text}"
