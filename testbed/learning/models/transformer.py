"""A small transformer for text: the input is a batch of rows of character numbers (int64), at most 80 in a row."""

from __future__ import annotations

import math

import torch
from torch import nn

_LONGEST = 80
_WIDTH, _HEADS, _LAYERS = 64, 4, 2


class CausalAttention(nn.Module):
    """Attention of each position to itself and to those before it, for queries, keys and values of several heads.

    It has no parameters. The input has the shape (3, batch, heads, positions, width of a head).
    """

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        queries, keys, values = rows
        length = queries.shape[-2]
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        seen: torch.Tensor = scores.masked_fill(later, -math.inf).softmax(dim=-1) @ values
        return seen


class TransformerLayer(nn.Module):
    """Attention, then a perceptron for each position; both are added to their normalised input (pre-LN)."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.perceptron_norm = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.heads = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.attention = CausalAttention()
        self.joined = nn.Linear(_WIDTH, _WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        count, length, _ = states.shape
        heads = self.heads(self.attention_norm(states)).view(count, length, 3, _HEADS, -1)
        seen = self.attention(heads.permute(2, 0, 3, 1, 4)).transpose(1, 2)
        states = states + self.joined(seen.reshape(count, length, _WIDTH))
        added: torch.Tensor = self.perceptron(self.perceptron_norm(states))
        return states + added


class TinyTransformer(nn.Module):
    """105,216 parameters, and 64 more for each character of the alphabet (``classes``): 109,376 for Shakespeare's 65.

    Not from a paper: two layers of a decoder as in GPT-2, of width 64 with 4 heads. The scores of the next character
    are products with the embeddings (tied weights), which begin small, so that the first scores are nearly equal.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.characters, self.positions = nn.Embedding(classes, _WIDTH), nn.Embedding(_LONGEST, _WIDTH)
        self.layers = nn.Sequential(*(TransformerLayer() for _ in range(_LAYERS)))
        self.norm = nn.LayerNorm(_WIDTH)
        self.scores = nn.Linear(_WIDTH, classes, bias=False)
        self.scores.weight = self.characters.weight
        for embedding in (self.characters, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        length = characters.shape[1]
        if length > _LONGEST:
            raise ValueError(f"a row has {length} characters; this network reads at most {_LONGEST}")
        states = self.layers(self.characters(characters) + self.positions(torch.arange(length)))
        scores: torch.Tensor = self.scores(self.norm(states[:, -1]))  # only the last prediction is needed
        return scores
