"""A linear classifier on frozen vectors: multinomial logistic regression, always the same.

In: vectors (N, D) and the class of each. Out: `LinearProbe`, which predicts classes. Vectors are
standardised and weights slightly held back; the loss has one lowest point, to which L-BFGS goes.
Shapes: N vectors, D width, C classes, B of a part.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

# Half the sum of the squared weights counts as much as the loss of one vector: what scikit-learn
# does by default. Standardised vectors need no other strength.
SQUARED_WEIGHTS = 0.5
MOST_EVALUATIONS = 250
SMALLEST_GRADIENT = 1e-4  # of the mean loss; where none is larger, the lowest point is reached
ROWS_AT_ONCE = 8192

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

    def accuracy(self, vectors: Vectors, classes: Classes) -> float:
        """The share of vectors whose class is predicted."""
        return float((self.predict(vectors) == classes).mean())


def train_linear(vectors: Vectors, classes: Classes, n_classes: int) -> LinearProbe:
    """Learn the classes of vectors, from no weights at all."""
    classifier = nn.Linear(vectors.shape[1], n_classes)
    nn.init.zeros_(classifier.weight)
    nn.init.zeros_(classifier.bias)
    probe = LinearProbe(*_moments(vectors), classifier)
    optimizer = torch.optim.LBFGS(
        classifier.parameters(),
        max_iter=MOST_EVALUATIONS,
        max_eval=MOST_EVALUATIONS,
        tolerance_grad=SMALLEST_GRADIENT,
        history_size=20,
        line_search_fn="strong_wolfe",
    )
    inputs, targets = probe.standardised(vectors), torch.from_numpy(classes)
    with tqdm(desc="learn", unit=" evaluations", leave=False, disable=None) as bar:

        def loss_with_gradients() -> float:
            bar.update()
            optimizer.zero_grad()
            return _loss_with_gradients(classifier, inputs, targets)

        optimizer.step(loss_with_gradients)  # type: ignore[no-untyped-call]
    return probe


def _loss_with_gradients(classifier: nn.Linear, inputs: Tensor, targets: Tensor) -> float:
    """The mean loss, some rows at a time; its gradients are left at the weights."""
    held_back = SQUARED_WEIGHTS * classifier.weight.square().sum() / len(inputs)
    held_back.backward()  # type: ignore[no-untyped-call]
    total = held_back.item()
    for start in range(0, len(inputs), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        logits = classifier(inputs[part])  # (B, C)
        loss = cross_entropy(logits, targets[part], reduction="sum") / len(inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total


def _moments(vectors: Vectors) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (D,); a column that never changes is left as it is."""
    mean = vectors.mean(0, dtype=np.float64)
    square = np.zeros(vectors.shape[1])
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        square += ((vectors[start : start + ROWS_AT_ONCE] - mean) ** 2).sum(0)
    deviation = np.sqrt(square / len(vectors))
    deviation[deviation < 1e-6] = 1.0
    return torch.from_numpy(mean).float(), torch.from_numpy(deviation).float()
