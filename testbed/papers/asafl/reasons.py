"""ASAFL: the setting in words, why a claim holds here or does not, by verdict, and which were not tested."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.papers.asafl.runs import BUDGET, ROUNDS, TARGET
from testbed.papers.chapter import Row, Verdict

SETTING = (
    "As in the paper: the cell (500 m, 10 dBm, 10⁻¹² W, −30 dB, Exp(1) fading anew in each round), devices of 0.1 to"
    " 0.8 GHz, what a job computes (0.16 to 1.3 s), what an upload takes beside it, and a fifth of the devices in a"
    f" round. Smaller: 10 devices and K = 2 in the place of 50 and 10, T = {ROUNDS} rounds in T_max = {BUDGET:g} s,"
    " embedded digits with a perceptron of 2,410 parameters, 2 steps of 16, and 8 ms there and back on every link."
    " Sizes are balanced in the paper; what α = 0.01 and 0.1 leave a device with then is about one label, or two: one"
    " label each stands for 0.01, two for 0.1. *Synchronous* waits for all ten; the paper's waits for K.\n\n"
    "Nothing is replayed: the rule grants the rates of a round when it begins, so that they are no recorded delays."
    " Places, fading, data and first model hang on the seed alone, and are the same for all. One rate η for all, as in"
    " the paper: that of the search for the calibrated rule; SAFL at the rate of its own search is told beside it."
    f" Accuracy is the mean over the last fifth of a run; times are those to an accuracy of {TARGET:g}, and a run that"
    " did not get there counts with all of its seconds."
)

_REUSED = (
    "a gradient that is used again is a step that nobody checked, up to a dozen times in a row: the calibrated rule"
    " wants a smaller η than SAFL does (see the searches)"
)
_ALL_OR_ONE = (
    "where the queue is empty, (15) has no price for time, and Lyapunov takes all ten devices (rounds of 0.8 to 1.4 s);"
    " a dozen rounds with one device pay for that, while Myopic has two or three in each. A μ with which the queue does"
    " not run empty spends more than T_max. That is the rule; and of 180 rounds, a full one takes a larger part"
)
REASONS: Mapping[tuple[str, Verdict], str] = {
    ("table iv", Verdict.DIRECTION): f"at the η that suits the calibrated rule: {_REUSED}",
    ("table iv", Verdict.DIFFERS): f"not all baselines are slower: {_REUSED}",
    ("own rate", Verdict.DIRECTION): f"less than at one η for both: {_REUSED}",
    ("own rate", Verdict.DIFFERS): _REUSED,
    ("two labels", Verdict.DIFFERS): f"with two labels each, K = 2 devices are less one-sided; and {_REUSED}",
    ("fig 2b", Verdict.DIFFERS): f"with two labels each, K = 2 devices are less one-sided; and {_REUSED}",
    ("myopic", Verdict.DIFFERS): _ALL_OR_ONE,
    ("budget", Verdict.DIFFERS): "a round of all devices, which Lyapunov takes whenever its queue is empty, overshoots",
    ("later", Verdict.DIFFERS): (
        "λ_t = 1/(T − t) grows in the last tenth of the rounds only; before, rounds of all devices and of one alternate"
    ),
}
"""By claim and verdict."""


def _untested(where: str, claim: str, reason: str) -> Row:
    return Row(where=where, claim=claim, ours="–", verdict=Verdict.UNTESTED, reason=reason)


_CIFAR = "VGG-11: 8 steps of 128 take a core about a minute, and 10⁴ s of the paper are thousands of them"
UNTESTED = (
    _untested(
        "Table IV and Fig. 3, CIFAR-10", "1.7× (α = 0.01) and 1.6× (0.1) as fast; 7.8 and 6.4 points above", _CIFAR
    ),
    _untested("Fig. 5, CIFAR-10", "ascending is above fixed and descending", _CIFAR),
    _untested("Fig. 7, CIFAR-10", "Lyapunov 5.78 points above Myopic, 1.9× as fast to 65 %", _CIFAR),
    _untested(
        "Fig. 8, CIFAR-10", "λ_t = 1/(T − t) is above 0.95^(T−t), 0.7^(T−t) and t/T, each with a μ of its own", _CIFAR
    ),
)
