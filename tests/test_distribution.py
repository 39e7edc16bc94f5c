from __future__ import annotations

import pytest

from tests.distribution import ByModuleFixture, has_module_fixture

SHARED = "tests/live/test_a_run.py"
APART = "tests/live/test_ends.py"


def scope(nodeid: str) -> str:
    return ByModuleFixture._split_scope(ByModuleFixture.__new__(ByModuleFixture), nodeid)


def test_tests_that_share_a_fixture_of_their_module_run_in_one_worker() -> None:
    assert scope(f"{SHARED}::test_one") == scope(f"{SHARED}::test_other[a::b]") == SHARED


def test_other_tests_are_distributed_one_by_one() -> None:
    assert scope(f"{APART}::test_one[a]") != scope(f"{APART}::test_one[b]")


@pytest.mark.parametrize(("module", "expected"), [(SHARED, True), (APART, False)])
def test_a_module_fixture_is_found_in_the_source(module: str, expected: bool) -> None:
    assert has_module_fixture(module) == expected
