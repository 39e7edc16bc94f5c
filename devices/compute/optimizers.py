"""Optimisers of local training, on flat vectors.

    x, g    weights and gradient;  η, λ: learning rate and weight decay

    sgd     v ← m·v + g + λ·x  (the first v is g + λ·x);  x ← x − η·v
    adam    g ← g + λ·x;  m₁ ← β₁·m₁ + (1 − β₁)·g;  m₂ ← β₂·m₂ + (1 − β₂)·g²
            x ← x − η/(1 − β₁ᵗ) · m₁ / (√(m₂/(1 − β₂ᵗ)) + ε)                      Kingma, Ba: ICLR 2015, arXiv:1412.6980
    adamw   x ← x − η·λ·x first, and no λ in g                     Loshchilov, Hutter: ICLR 2019, arXiv:1711.05101

The operations and their order are those of ``torch.optim``, so that the results have the same bits. Its own classes are
not used: their first use imports ``torch._dynamo``, which costs seconds and megabytes in every device process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch

from testbed.learning.training.task import Memory
from testbed.wire.training_job import Job

Optimizer: TypeAlias = Callable[[torch.Tensor, torch.Tensor, float], None]
"""Changes weights by a gradient, which it may overwrite, with a learning rate."""


def optimizer_of(job: Job, memory: Memory) -> Optimizer:
    """Return the optimiser of a job. Its state is in ``memory``, from where the next job may continue with it."""
    state: Memory = memory.setdefault("optimizer", {}) if job.optimizer_state == "kept" else {}
    return _sgd(job, state) if job.optimizer == "sgd" else _adam(job, state)


def clip(gradient: torch.Tensor, limit: float) -> None:
    """Scale a gradient down to the norm ``limit``, as ``torch.nn.utils.clip_grad_norm_`` does."""
    gradient.mul_(torch.clamp(limit / (torch.linalg.vector_norm(gradient) + 1e-6), max=1.0))


def _sgd(job: Job, state: Memory) -> Optimizer:
    def change(weights: torch.Tensor, gradient: torch.Tensor, lr: float) -> None:
        if job.weight_decay:
            gradient.add_(weights, alpha=job.weight_decay)
        if job.momentum:
            velocity = state.get("velocity")
            state["velocity"] = gradient.clone() if velocity is None else velocity.mul_(job.momentum).add_(gradient)
            gradient = state["velocity"]
        weights.add_(gradient, alpha=-lr)

    return change


def _adam(job: Job, state: Memory) -> Optimizer:
    def change(weights: torch.Tensor, gradient: torch.Tensor, lr: float) -> None:
        if not state:
            state.update(steps=0, first=torch.zeros_like(weights), second=torch.zeros_like(weights))
        state["steps"] += 1
        if job.weight_decay and job.optimizer == "adamw":
            weights.mul_(1 - lr * job.weight_decay)
        elif job.weight_decay:
            gradient.add_(weights, alpha=job.weight_decay)
        first, second = state["first"], state["second"]
        first.lerp_(gradient, 1 - job.beta_1)
        second.mul_(job.beta_2).addcmul_(gradient, gradient, value=1 - job.beta_2)
        step = lr / (1 - job.beta_1 ** state["steps"])
        root = math.sqrt(1 - job.beta_2 ** state["steps"])
        weights.addcdiv_(first, second.sqrt().div_(root).add_(job.epsilon), value=-step)

    return change
