"""The bounds of Hao et al. against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import build
from testbed.theory import bounds as theory
from testbed.theory.bound_constants import Constants
from testbed.theory.bounds import MeasuredBounds
from testbed.theory.iterations import Delays, Iterations, iterations
from tests.testbed.theory.test_iterations import EVENTS

C = Constants(L=2.0, mu=1.0, R=3.0, G=10.0, phi=2.0, eta=0.1)  # η²G² = 1

# λ = ¼, ½, ¼ of a, b, c, whose moments are in test_iterations:
#   τ  = 1/4 + 1/2 + 2.5/4                       = 1.375
#   τ² = (14/4 + 10/2 + 55/4) / 6                = 22.25/6
#   τ³ = 6/4 + 3/2 + 37.5/4                      = 12.375
#   X  = 12.375/3 + 3/2·22.25/6 + 13/6·1.375     = 4.125 + 5.5625 + 2.979166… = 38/3
# T = 6, N = 3, |I| = 5/6, N − |I| = 13/6
M = MeasuredBounds(versions=6, devices=3, heard=5 / 6, tau=1.375, tau2=22.25 / 6, tau3=12.375)

#   start           9 / (2·0.1·6)                = 7.5
#   heterogeneity   4/36·[2·9 + 3·4] = 30/9      = 10/3
#   age             2·9/2·1.375                  = 12.375
#   absence         13/6·[3/2·4 + 3/2·2·9] = 13/6·33  = 71.5
#   steps, AUDG     1/2·5/6·1.375                = 0.572916…
#   steps, PSURDG   1/2·3·1.375                  = 2.0625
#   drift           2·3/2·38/3                   = 38
SFL = 7.5 + 10 / 3
AUDG = 133.28125
PSURDG = 63.27083333333333
THETA = -70.01041666666667  # 13/6·(0.6875 − 33)

WIDE = [
    (Constants(L=3.0, mu=0.2, R=0.5, G=7.0, phi=0.3, eta=0.4), replace(M, heard=2.25)),
    (Constants(L=1.0, mu=0.1, R=5.0, G=2.0, phi=0.5, eta=0.05), replace(M, versions=50, devices=8)),
    (Constants(L=2.0, mu=2.0, R=1.0, G=9.0, phi=0.0, eta=1.0), M),
]


def same(value: float) -> object:
    return pytest.approx(value, rel=1e-12)


# ---- measured quantities


def test_the_moments_of_a_trace_are_weighted_by_samples() -> None:
    seen = iterations(EVENTS)
    lam = theory.weights(seen, "samples")
    assert lam == {"a": 0.25, "b": 0.5, "c": 0.25}
    found = theory.measured(seen, lam)
    assert (found.versions, found.devices) == (6, 3)
    assert [found.heard, found.tau, found.tau2, found.tau3] == [same(x) for x in (5 / 6, 1.375, 22.25 / 6, 12.375)]
    assert found.x == same(38 / 3)


def test_equal_weights_do_not_depend_on_samples() -> None:
    seen = iterations(EVENTS)
    lam = theory.weights(seen, "equal")
    assert lam == {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    assert theory.measured(seen, lam).tau == same((1 + 1 + 2.5) / 3)


@pytest.mark.parametrize("devices", [{}, {"a": Delays(samples=0, heard=0, tau=(0,))}])
def test_devices_without_samples_have_no_weights(devices: dict[str, Delays]) -> None:
    with pytest.raises(UserError, match="--weights equal"):
        theory.weights(Iterations(devices=devices, heard=(0,)), "samples")


# ---- the bounds


def test_the_bound_of_sfl_is_equation_20() -> None:
    assert theory.sfl(C, M).terms == {"start": same(7.5), "heterogeneity": same(10 / 3)}
    assert theory.sfl(C, M).value == same(SFL)


def test_the_bound_of_audg_is_equation_21() -> None:
    assert theory.audg(C, M).terms == {
        "start": same(7.5),
        "heterogeneity": same(10 / 3),
        "age": same(12.375),
        "absence": same(71.5),
        "steps": same(6.875 / 12),
        "drift": same(38.0),
    }
    assert theory.audg(C, M).value == same(AUDG)


def test_the_bound_of_psurdg_is_equation_48() -> None:
    assert theory.psurdg(C, M).terms == {
        "start": same(7.5),
        "heterogeneity": same(10 / 3),
        "age": same(12.375),
        "steps": same(2.0625),
        "drift": same(38.0),
    }
    assert theory.psurdg(C, M).value == same(PSURDG)


@pytest.mark.parametrize(("c", "m"), [(C, M), *WIDE[:2]])
def test_equation_48_multiplied_out_is_equation_48_as_printed(c: Constants, m: MeasuredBounds) -> None:
    x = m.tau3 / 3 + 3 / 2 * m.tau2 + 13 / 6 * m.tau
    printed = (
        c.R**2 / (2 * c.eta * m.versions)
        + 2 * c.L / (c.mu * m.versions**2) * (c.L * c.R**2 + (c.mu + c.L) * c.phi**2)
        + m.devices * c.eta**2 * c.G**2 * (c.L - c.mu) / 2 * (m.tau + c.L / (c.L - c.mu) * x)
        + c.L * c.R**2 / 2 * m.tau
    )
    assert theory.psurdg(c, m).value == same(printed)


def test_delays_alone_degrade_by_equation_45() -> None:
    # 12.375 + 3/2·2·9·13/6 + 38 + 6.875/12 = 12.375 + 58.5 + 38 + 0.572916…
    assert theory.pdd(C, M) == same(109.44791666666667)


def test_without_heterogeneity_the_bound_of_audg_tends_to_its_pdd() -> None:
    c, m = replace(C, phi=0.0), replace(M, versions=10**12)
    assert theory.audg(c, m).value == pytest.approx(theory.pdd(c, m), rel=1e-9)


def test_without_delays_all_bounds_equal_that_of_sfl() -> None:
    prompt = MeasuredBounds(versions=6, devices=3, heard=3.0, tau=0.0, tau2=0.0, tau3=0.0)
    assert theory.audg(C, prompt).value == theory.psurdg(C, prompt).value == theory.sfl(C, prompt).value == same(SFL)
    assert (theory.pdd(C, prompt), theory.theta(C, prompt)) == (0.0, 0.0)


def test_a_loss_that_is_as_convex_as_smooth_does_not_divide_by_zero() -> None:
    c = replace(C, mu=2.0)
    # 7.5 + 4/(2·36)·[18 + 4·4] + 12.375 + 3·2/2·38/3 = 7.5 + 17/9 + 12.375 + 38
    assert theory.psurdg(c, M).value == same(7.5 + 17 / 9 + 12.375 + 38)
    assert theory.psurdg(c, M).terms["steps"] == 0.0
    assert theory.theta(c, M) == same(-13 / 6 * (2 / 2 * 4 + 27))


# ---- Θ


def test_theta_is_the_difference_of_the_bounds() -> None:
    assert theory.theta(C, M) == same(THETA)
    assert same(THETA) == PSURDG - AUDG


@pytest.mark.parametrize(("c", "m"), WIDE)
def test_theta_is_the_difference_of_the_bounds_for_any_numbers(c: Constants, m: MeasuredBounds) -> None:
    assert theory.theta(c, m) == pytest.approx(theory.psurdg(c, m).value - theory.audg(c, m).value, rel=1e-9)


def test_theta_as_printed_has_l_where_the_difference_has_l_minus_mu() -> None:
    # 13/6·(1.375 − 33); the difference is 13/6·1/2·1.375
    assert theory.theta_as_printed(C, M) == same(-68.52083333333333)
    assert theory.theta_as_printed(C, M) - theory.theta(C, M) == same(17.875 / 12)


def test_small_delays_and_much_heterogeneity_favour_psurdg() -> None:
    small = Constants(L=1.0, mu=0.5, R=0.1, G=1.0, phi=0.0, eta=1.0)
    assert theory.theta(small, M) > 0  # 1/4·1.375 > 3/2·0.01
    assert theory.theta(replace(small, phi=1.0), M) < 0  # 1/4·1.375 < 3/4 + 3/2·0.01
    assert theory.theta(small, replace(M, tau=0.05)) < 0  # 1/4·0.05 < 3/2·0.01


# ---- constants


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("L", 0.0, "L is 0.0; it must be above 0"),
        ("mu", 0.0, "mu is 0.0; it must be above 0"),
        ("mu", 2.5, "mu is 2.5; it must be at most L, which is 2"),
        ("R", -1.0, "R is -1.0; it must be at least 0"),
        ("G", -1.0, "G is -1.0; it must be at least 0"),
        ("phi", -0.5, "phi is -0.5; it must be at least 0"),
        ("eta", 0.0, "eta is 0.0; it must be above 0"),
        ("phi", float("nan"), "phi is nan; it must be finite"),
    ],
)
def test_constants_out_of_range_are_refused(name: str, value: float, fragment: str) -> None:
    table = {"L": 2.0, "mu": 1.0, "R": 3.0, "G": 10.0, "phi": 2.0, "eta": 0.1}
    with pytest.raises(ProfileError) as caught:
        build(Constants, table | {name: value}, "here")
    assert fragment in str(caught.value)
