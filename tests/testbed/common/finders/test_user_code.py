"""An exception in a user's code is one line that names the line to look at."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from testbed.common.finders import user_modules
from testbed.common.finders.user_code import in_one_line, place_of
from testbed.common.finders.user_modules import UserModules
from testbed.common.stats import quantile

MINE = """
import json

def divide(number):
    return 1 / number

def read(text):
    return json.loads(text)

def call(function):
    return function()

def fail(text):
    raise ValueError(text)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of a user, found as one that a profile names."""
    finder = UserModules()
    monkeypatch.setattr(user_modules, "FINDER", finder)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    (tmp_path / "edgebed_mine.py").write_text(MINE, encoding="utf-8")
    finder.search_in(tmp_path)
    finder.allow("edgebed_mine")
    yield importlib.import_module("edgebed_mine")
    del sys.modules["edgebed_mine"]


def test_the_line_names_file_line_function_type_text_and_notes(mine: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        mine.divide(0)
    caught.value.add_note("update of phone-3, version 12")
    assert in_one_line(caught.value) == (
        "edgebed_mine.py:5, in divide: ZeroDivisionError: division by zero (update of phone-3, version 12)"
    )


def test_the_users_line_is_named_if_a_library_raises_or_we_do(mine: ModuleType) -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        mine.read("{")
    assert place_of(caught.value) == "edgebed_mine.py:8, in read"
    with pytest.raises(Exception) as ours:
        mine.call(functools.partial(quantile, [], 0.5))
    assert place_of(ours.value) == "edgebed_mine.py:11, in call"


def test_an_exception_without_text_or_with_several_lines_is_one_line(mine: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"^$") as empty:
        mine.fail("")
    assert in_one_line(empty.value) == "edgebed_mine.py:14, in fail: ValueError"
    with pytest.raises(ValueError, match="one") as long:
        mine.fail("one\n  two")
    assert in_one_line(long.value, with_type=False) == "edgebed_mine.py:14, in fail: one two"


def test_an_exception_of_our_own_code_has_no_place_even_if_a_profile_names_our_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finder = UserModules()
    monkeypatch.setattr(user_modules, "FINDER", finder)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    finder.allow("testbed.common.stats")
    with pytest.raises(Exception) as caught:
        quantile([], 0.5)
    error, steps = caught.value, caught.value.__traceback__
    assert steps is not None
    error.__traceback__ = steps.tb_next  # without this test
    assert place_of(error) == ""
    assert in_one_line(error).startswith(type(error).__name__)
