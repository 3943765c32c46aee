"""ELMo in your own PyTorch model: `python examples/own_model.py [MODEL]`."""

import sys

import torch
from torch import nn

from elmo import Elmo

elmo = Elmo.load(*sys.argv[1:2])  # the shipped English model, or the given one
DATA = [
    ("The actors took a bow .", "O O O O thing O"),
    ("They bow before the king .", "O act O O O O"),
    ("She drew her bow and shot .", "O act O thing O act O"),
    ("We shot an arrow from a bow .", "O act O thing O O thing O"),
]
LABELS = ["O", "thing", "act"]


class Tagger(nn.Module):
    """A BiLSTM tagger on ELMo vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.elmo = elmo.layer(n_outputs=1, dropout=0.5)  # frozen, except for the layer weights
        self.lstm = nn.LSTM(self.elmo.output_dim, 32, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(64, len(LABELS))

    def forward(self, sentences: list[list[str]]) -> torch.Tensor:
        """Scores of the labels, (sentences, tokens, labels)."""
        vectors = self.elmo(sentences).mixes[0]  # (sentences, tokens, dimensions)
        return self.scores(self.lstm(vectors)[0])


torch.manual_seed(1)
model = Tagger()
sentences = [text.split() for text, _ in DATA]
targets = nn.utils.rnn.pad_sequence(
    [torch.tensor([LABELS.index(label) for label in labels.split()]) for _, labels in DATA],
    batch_first=True,
    padding_value=-100,  # ignored by cross entropy
)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
for _ in range(40):
    loss = nn.functional.cross_entropy(model(sentences).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
for words in sentences:
    guesses = model([words])[0].argmax(-1).tolist()
    print(" ".join(f"{w}/{LABELS[g]}" for w, g in zip(words, guesses, strict=True)))
