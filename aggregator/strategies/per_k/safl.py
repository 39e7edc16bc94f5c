"""SAFL: wait for K updates, apply their mean, send the model back to those K.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024 (ASAFL), a
baseline of section V; after Wu, He, Lin, Mao, Maple, Jarvis: SAFA: A Semi-Asynchronous Protocol for Fast Federated
Learning with Low Overhead. IEEE Trans. Computers 70(5), 2021, doi:10.1109/TC.2020.2994391, arXiv:1910.01355.

Symbols
    K       updates per version
    S_t     the K devices whose updates arrive first
    g_n     −Δ_n/η, the gradient of device n, summed over its local steps

Rule
    x_{t+1} = x_t − η · (1/K) Σ_{n∈S_t} g_n  =  x_t + (1/K) Σ_{n∈S_t} Δ_n
    only S_t receive x_{t+1}; the others continue with the models that they have

Departures
    When fewer than K updates can still arrive, the mean is over those that have arrived.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import EveryK


@dataclass(kw_only=True)
class SAFL(EveryK):
    """Semi-asynchronous, plain mean of K (baseline of Chen et al., 2024)."""

    # x_{t+1} = x_t + (1/K) Σ Δ_n: the mean is the default of EveryK
