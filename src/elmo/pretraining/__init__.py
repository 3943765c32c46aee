"""Pre-train and fine-tune a biLM."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.pretraining.config import read_config as read_config
    from elmo.pretraining.finetune import finetune_model as finetune_model
    from elmo.pretraining.finetune import read_finetune_config as read_finetune_config
    from elmo.pretraining.perplexity import measure_text as measure_text
    from elmo.pretraining.pretrain import open_texts as open_texts
    from elmo.pretraining.pretrain import pretrain_model as pretrain_model

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "config": "read_config",
        "finetune": "finetune_model read_finetune_config",
        "perplexity": "measure_text",
        "pretrain": "open_texts pretrain_model",
    },
)
