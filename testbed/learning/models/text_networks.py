"""Networks for text: the input is a batch of rows of character numbers (int64), the output scores of the next one."""

from __future__ import annotations

import torch
from torch import nn

_EMBEDDING = 8
_HIDDEN = 256


class CharLSTM(nn.Module):
    """798,720 parameters, and 265 more for each character of the alphabet (``classes``): 819,920 for LEAF's 80.

    AsyncFedED (Wang et al. 2022, appendix B.1) says: one embedding layer, two LSTM layers, one fully connected layer.
    Their sizes are LEAF's (Caldas et al. 2018): 8, 256, 256. An LSTM layer of torch has two bias vectors instead of
    one, in total 2 · 1,024 parameters more.
    """

    def __init__(self, classes: int, hidden: int = _HIDDEN, read: int | None = None) -> None:
        """``read``: number of last characters that are used; None: all."""
        super().__init__()
        self.read = read
        self.embedding = nn.Embedding(classes, _EMBEDDING)
        self.lstm = nn.LSTM(_EMBEDDING, hidden, num_layers=2, batch_first=True)
        self.scores = nn.Linear(hidden, classes)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        recent = characters if self.read is None else characters[:, -self.read :]
        states, _ = self.lstm(self.embedding(recent))
        scores: torch.Tensor = self.scores(states[:, -1])  # only the prediction after the last character is needed
        return scores
