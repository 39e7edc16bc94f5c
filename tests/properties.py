"""How many examples a property test tries, and whether they are the same each time.

EDGEBED_PROPERTIES names the profile: ``quick`` (``make test``) tries a fifth of the examples, ``thorough``
(``make test-all``) all of them. Both always try the same examples, so a test that passed passes again. ``random``
(``make test-nightly``) tries five times as many, different ones each time, and prints how to repeat a failure.

No profile has a deadline: how long an example takes depends on what else the host does.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SHARES = {"quick": 0.2, "thorough": 1.0, "random": 5.0}
_FEWEST = 20

VARIABLE = "EDGEBED_PROPERTIES"
PROFILE = os.environ.get(VARIABLE) or "quick"


def register() -> None:
    """Define the profiles and choose one. Raises ValueError if there is none of that name."""
    if PROFILE not in _SHARES:
        raise ValueError(f"{VARIABLE} is {PROFILE!r}; it must be one of {', '.join(_SHARES)}")
    for name in _SHARES:
        always_same = name != "random"
        settings.register_profile(
            name,
            deadline=None,
            derandomize=always_same,
            database=None,
            print_blob=not always_same,
            suppress_health_check=[HealthCheck.too_slow],
            max_examples=number(100, name),
        )
    settings.load_profile(PROFILE)


def number(thorough: int, profile: str) -> int:
    """Return how many examples a profile tries where ``thorough`` tries so many."""
    return max(min(_FEWEST, thorough), round(thorough * _SHARES[profile]))


def examples(thorough: int) -> settings:
    """Return the settings of a test that tries ``thorough`` examples in the profile of that name."""
    return settings(max_examples=number(thorough, PROFILE))
