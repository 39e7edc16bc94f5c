"""The names of the API: imported when they are used, and not hidden by the packages of the same words."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import testbed
from testbed import errors
from testbed.execution.outcome import Outcome

ROOT = Path(__file__).parents[3]


def test_the_api_has_five_names() -> None:
    assert {"Run", "compare", "plan", "run", "sweep"} < set(testbed.__all__)
    assert all(callable(getattr(testbed, name)) for name in testbed.__all__ if name != "__version__")


def test_the_names_are_offered_for_completion() -> None:
    assert {"Run", "compare", "plan", "run", "sweep"} < set(dir(testbed))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        testbed.runn  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import testbed, sys; assert not {'rich', 'numpy', 'torch', 'msgspec'} & sys.modules.keys()",
        "from testbed import run, compare, Run; import sys; assert not {'torch', 'matplotlib'} & sys.modules.keys()",
        "import testbed.comparison, testbed.sweeps; from testbed import compare, sweep; assert callable(compare)",
    ],
)
def test_imports(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)


def test_all_exceptions_of_the_api_are_public() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), (errors.UserError, errors.RunFailed, errors.RunInterrupted))
    assert not issubclass(errors.UserError, SystemExit)


def test_exceptions_cross_a_process_boundary(tmp_path: Path) -> None:
    for error in (
        errors.ProfileError("a.toml", "seed", "is wrong"),
        errors.RunFailed("it died", tmp_path, "details"),
        errors.ReplayDiffers("it differs", tmp_path),
        errors.RunInterrupted("interrupted", tmp_path),
        errors.NotARun("no run"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("changes", "raised"),
    [
        ({"unreadable": "the trace cannot be read"}, errors.RunFailed),
        ({"failure": "all devices have died"}, errors.RunFailed),
        ({"unwritten": {"metrics.csv": "No space left on device"}}, errors.RunFailed),
        ({"signal": 2}, errors.RunInterrupted),
        ({"departure": "differs from the recorded run in: arrivals"}, errors.ReplayDiffers),
    ],
)
def test_what_went_wrong_is_raised_with_the_folder(
    changes: dict[str, object], raised: type[BaseException], tmp_path: Path
) -> None:
    from testbed.api.running import _run_of

    outcome = Outcome(folder=tmp_path, **changes)  # type: ignore[arg-type]
    with pytest.raises(raised, match=str(tmp_path)) as caught:
        _run_of(outcome)
    assert caught.value.folder == tmp_path  # type: ignore[attr-defined]
    assert outcome.exit_code != 0


def test_what_is_no_failure_is_a_warning(tmp_path: Path) -> None:
    from testbed.api.running import _run_of

    (tmp_path / "trace.jsonl").touch()
    with pytest.warns(UserWarning, match="no report"):
        assert _run_of(Outcome(folder=tmp_path, warnings=["no report: the disk is full"])).path == tmp_path
