"""Networks for text: a batch of rows of character numbers (int64) in, a batch of scores of the next character out."""

from __future__ import annotations

import torch
from torch import nn

_EMBEDDING = 8
_HIDDEN = 256


class CharLSTM(nn.Module):
    """798,720 parameters, and 265 more for each character of the alphabet (``classes``): 819,920 for LEAF's 80.

    AsyncFedED (Wang et al. 2022, appendix B.1) says: one embedding layer, two LSTM layers, one fully connected layer.
    Their sizes are LEAF's (Caldas et al. 2018): 8, 256, 256. torch has two vectors of biases in an LSTM layer where
    others have one, 2 · 1,024 parameters more.
    """

    def __init__(self, classes: int, hidden: int = _HIDDEN, read: int | None = None) -> None:
        """``read``: how many of the last characters are looked at; None: all."""
        super().__init__()
        self.read = read
        self.embedding = nn.Embedding(classes, _EMBEDDING)
        self.lstm = nn.LSTM(_EMBEDDING, hidden, num_layers=2, batch_first=True)
        self.scores = nn.Linear(hidden, classes)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        recent = characters if self.read is None else characters[:, -self.read :]
        states, _ = self.lstm(self.embedding(recent))
        scores: torch.Tensor = self.scores(states[:, -1])  # only what comes after the last character is asked for
        return scores
