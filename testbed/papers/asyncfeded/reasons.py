"""AsyncFedED: the reasons for verdicts. Each is printed only with the verdict that it explains."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.papers.framework.chapter import ClaimVerdict

_SMALLER = "The task is smaller than the paper's: at most the direction can agree."
_EASY = (
    "The measure favours strategies that hardly learn: 90 % of a low best accuracy is reached soon, sometimes by the"
    " initial model."
)
_UNEVEN = (
    "The strategy: K becomes uneven, 1 on most devices and 15 or more on a few, and the long updates of the latter"
    " dominate the model. With K limited to ten, it is as smooth as with K = 5, the smoothest of the fixed ones."
)
_LEVEL = "It is equal to K = 5 and 10: the difference is a tenth of that between seeds."
_RATE = (
    "The setting: the rate decides. At one rate for all, a quarter of this, AsyncFedED is first (next row), and at"
    " the printed one, 0.01, no strategy learns much in so few jobs. At 0.16 its accuracy fluctuates (best 0.49, last"
    " 0.36 in the mean), FedAsync's hardly does (0.60, 0.58): FedAsync moves the current model towards the device's"
    " model; AsyncFedED adds the change that the device made to an older one."
)
_ENDLESS = (
    "The scale: with six devices γ is 1.3 to 1.7, nearly always below γ̄ = 3, so that by (8) K grows from 10 to 40 on"
    " every device. This is probably the cause: in single runs with seed 101, each with its own delays, AsyncFedED"
    " ended at 0.12, with K fixed at ten at 0.27, and FedAvg at 0.27. With K fixed and a fifth of the weight, which"
    " is about 0.43, it fluctuated less, and ended at 0.25."
)
HINGE = (
    "FedAsync+Constant does. With ten devices in flight τ is about 9, above the b = 5 of Table 3, and the hinge damps"
    " α from 0.1 to 0.005. Where some devices are suspended, the updates of others are fresher: a run has 11 updates"
    " with τ ≤ 5 at P = 0, 48 at 0.1, 72 at 0.3, 57 at 0.6 and 30 at 0.9, and its accuracy roughly follows that"
    " number."
)
_NO_LEVER = (
    "(8) assumes that γ rises with K. With K of all devices it may; but when K of one device alone was varied from 1"
    " to 40, in a simulation of these runs outside the testbed, its γ did not rise steadily: meanwhile the others"
    " make more versions, and its own Δ becomes longer, too. In a run that we examined, K fell to 1 where γ was above"
    " γ̄, and grew where it was below."
)
REASONS: Mapping[tuple[str, ClaimVerdict], str] = {
    ("speed femnist", ClaimVerdict.DIRECTION): _SMALLER,
    ("speed femnist", ClaimVerdict.DIFFERS): _RATE,
    ("speed femnist-one-rate", ClaimVerdict.DIRECTION): _SMALLER,
    ("speed shakespeare", ClaimVerdict.DIRECTION): _SMALLER,
    ("speed shakespeare", ClaimVerdict.DIFFERS): _ENDLESS,
    ("faster", ClaimVerdict.DIFFERS): _LEVEL,
    ("time", ClaimVerdict.DIRECTION): _EASY,
    ("time", ClaimVerdict.DIFFERS): _EASY,
    ("smoother", ClaimVerdict.DIFFERS): _UNEVEN,
    ("settled", ClaimVerdict.DIRECTION): _NO_LEVER,
    ("settled", ClaimVerdict.DIFFERS): _NO_LEVER,
}
"""Claim and verdict → the reason, which is printed only with that verdict."""
