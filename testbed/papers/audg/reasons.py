"""Why what was measured is not what AUDG's paper prints. Each reason stands with the verdict that it explains."""

from __future__ import annotations

from testbed.papers.chapter import Verdict

_STEPS = (
    "by (13), AUDG moves by Σλ over I_t of a step in an iteration (Σλφ in the mean: 0.40 to 0.50, and 0.22 in Large at"
    " delay 9), PSURDG by a whole one, which may be old. Probably PSURDG is ahead"
    " for that alone while the model is still learning, and AUDG where η is so large that old steps overshoot. The"
    " paper's η is not printed"
)
_SCATTER = "three seeds with one model each scatter by more than the rules differ; the paper has means of ten"

SYNCHRONOUS = {
    Verdict.DIRECTION: "other data, and another network",
    Verdict.DIFFERS: (
        "without delays and with one step, the sum of gradients over disjoint shares is the gradient over all of them:"
        " IID and Non-IID are the same descent"
    ),
}
SIGNS = {Verdict.DIFFERS: _STEPS, Verdict.UNTESTED: _SCATTER}
LONG_SIGNS = {Verdict.DIFFERS: "", Verdict.UNTESTED: _SCATTER}
LOSSES = {Verdict.DIFFERS: "as with the accuracy", Verdict.UNTESTED: _SCATTER}
THETA = {
    Verdict.DIFFERS: (
        "in Θ, the term of the way that is still to go, R²/(2ηT), is the same for both rules: that PSURDG takes steps"
        " of two to five times the length of AUDG's is not in it. Its sign also hangs on constants that are not"
        " printed: with φ = 0 and ηL = 2, the edge of stability, it is positive from τ = 3/4 on, with ηL = 1 from τ = 3"
    )
}
