"""Whether flwr is there, and in a version that is supported, is told with the pip command."""

from __future__ import annotations

import importlib.metadata

import pytest

from testbed.common.errors import UserError
from testbed.learning.flower import flower_version


@pytest.mark.parametrize(
    ("version", "supported"),
    [("1.26.1", False), ("1.27.0", True), ("1.41.0", True), ("1.42.3", True), ("1.43.0", False), ("2.0", False)],
)
def test_the_range_is_checked_by_its_first_two_numbers(
    version: str, supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    assert flower_version.is_supported(version) == supported
    if supported:
        flower_version.check()
    else:
        with pytest.raises(UserError, match=rf"flwr {version} is installed, supported is 1.27 to 1.42; .*'flwr>=1.27,"):
            flower_version.check()


def test_a_missing_flwr_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(UserError, match=r"not installed; install it with: pip install 'flwr>=1\.27,<1\.43'"):
        flower_version.check()
