from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests import properties
from tests.properties import examples, number

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("thorough", "quick", "random"), [(500, 100, 2500), (100, 20, 500), (50, 20, 250), (5, 5, 25)])
def test_a_profile_tries_its_share_of_the_examples(thorough: int, quick: int, random: int) -> None:
    assert [number(thorough, name) for name in ("quick", "thorough", "random")] == [quick, thorough, random]


@pytest.mark.parametrize("name", ["quick", "thorough"])
def test_a_profile_that_is_not_random_always_tries_the_same_examples_without_a_deadline(name: str) -> None:
    profile = settings.get_profile(name)
    assert (profile.derandomize, profile.deadline, profile.database) == (True, None, None)
    assert not settings.get_profile("random").derandomize


def test_a_test_has_the_settings_of_the_chosen_profile() -> None:
    assert examples(1000).max_examples == number(1000, properties.PROFILE)
    assert examples(1000).deadline is None


def test_an_unknown_profile_is_refused() -> None:
    environment = os.environ | {properties.VARIABLE: "slapdash"}
    code = "from tests import properties; properties.register()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "EDGEBED_PROPERTIES is 'slapdash'; it must be one of quick, thorough, random" in done.stderr
