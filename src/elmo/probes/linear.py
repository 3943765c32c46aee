"""A linear classifier on frozen vectors: multinomial logistic regression, always the same.

In: vectors (N, D) and the class of each. Out: `LinearProbe`, which predicts classes. Vectors are
standardised; AdamW steps over small batches in a fixed random order; when the loss of a tenth of
the vectors, held out, falls no more, the rate is halved, and at last the best weights are kept.
Shapes: N vectors, D width, C classes, B of a batch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from elmo.errors import DataError

HELD_OUT_SHARE = 0.1
BATCH_SIZE = 256
LEARNING_RATE = 4e-3
WEIGHT_DECAY = 0.01
LEAST_FALL = 1e-3  # of the loss in an epoch, as a share of it; with less the rate is halved
N_HALVINGS = 4  # after which the classifier is done
MOST_EPOCHS = 50
ROWS_AT_ONCE = 16_384
SEED = 0

Vectors = NDArray[np.floating[Any]]
Classes = NDArray[np.int64]


@dataclass(frozen=True)
class LinearProbe:
    """A trained classifier."""

    mean: Tensor  # (D,)
    deviation: Tensor  # (D,)
    classifier: nn.Linear

    @torch.inference_mode()
    def predict(self, vectors: Vectors) -> Classes:
        """The class of each vector, (N,)."""
        found = [
            self.classifier(self.standardised(vectors[start : start + ROWS_AT_ONCE])).argmax(-1)
            for start in range(0, len(vectors), ROWS_AT_ONCE)
        ]
        return torch.cat(found).numpy() if found else np.empty(0, dtype=np.int64)

    def standardised(self, vectors: Vectors) -> Tensor:
        """Vectors with the mean 0 and the variance 1 of those that were learned from, float32."""
        return (torch.from_numpy(vectors).float() - self.mean) / self.deviation

    @torch.inference_mode()
    def loss(self, vectors: Vectors, classes: Classes) -> float:
        """The mean surprisal of the classes, in nats."""
        logits = self.classifier(self.standardised(vectors))
        return float(cross_entropy(logits, torch.from_numpy(classes)))

    def accuracy(self, vectors: Vectors, classes: Classes) -> float:
        """The share of vectors whose class is predicted."""
        return float((self.predict(vectors) == classes).mean())


def train_linear(vectors: Vectors, classes: Classes, n_classes: int) -> LinearProbe:
    """Learn the classes of vectors; the last ones are held out to say when to stop."""
    n_learned = len(vectors) - round(HELD_OUT_SHARE * len(vectors))
    if n_learned == len(vectors):
        raise DataError(
            f"{len(vectors)} words to learn from, expected enough to hold a tenth of them out; "
            "name a larger file"
        )
    learned, held_out = slice(n_learned), slice(n_learned, None)
    mean, deviation = _moments(vectors[learned])
    generator = torch.Generator().manual_seed(SEED)
    classifier = nn.Linear(vectors.shape[1], n_classes)
    nn.init.zeros_(classifier.weight)  # a convex loss needs no random start
    nn.init.zeros_(classifier.bias)
    probe = LinearProbe(mean, deviation, classifier)
    optimiser = torch.optim.AdamW(
        classifier.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )
    best, lowest, n_halvings = _copied(classifier), float("inf"), 0
    for _ in tqdm(range(MOST_EPOCHS), desc="learn", unit=" epochs", leave=False, disable=None):
        _learn_once(probe, optimiser, vectors[learned], classes[learned], generator)
        loss, before = probe.loss(vectors[held_out], classes[held_out]), lowest
        if loss < lowest:
            best, lowest = _copied(classifier), loss
        if loss < before * (1 - LEAST_FALL):
            continue
        n_halvings += 1
        if n_halvings > N_HALVINGS:
            break
        for group in optimiser.param_groups:
            group["lr"] /= 2
    classifier.load_state_dict(best)
    return probe


def _learn_once(
    probe: LinearProbe,
    optimiser: torch.optim.Optimizer,
    vectors: Vectors,
    classes: Classes,
    generator: torch.Generator,
) -> None:
    order = torch.randperm(len(vectors), generator=generator).numpy()
    for start in range(0, len(order), BATCH_SIZE):
        batch = order[start : start + BATCH_SIZE]
        logits = probe.classifier(probe.standardised(vectors[batch]))  # (B, C)
        optimiser.zero_grad()
        cross_entropy(logits, torch.from_numpy(classes[batch])).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def _moments(vectors: Vectors) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (D,); a column that never changes is left as it is."""
    mean = vectors.mean(0, dtype=np.float64)
    square = np.zeros(vectors.shape[1])
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        square += ((vectors[start : start + ROWS_AT_ONCE] - mean) ** 2).sum(0)
    deviation = np.sqrt(square / len(vectors))
    deviation[deviation < 1e-6] = 1.0
    return torch.from_numpy(mean).float(), torch.from_numpy(deviation).float()


def _copied(classifier: nn.Linear) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in classifier.state_dict().items()}
