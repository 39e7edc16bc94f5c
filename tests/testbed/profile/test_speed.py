"""Speeds of devices: curves over time, the four keys that define a speed, and errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.errors import ProfileError
from testbed.host.survey import StepTime, Survey
from testbed.loading import profile_loader
from testbed.profile import fleet, speed
from testbed.profile.schema import DeviceProfile, Phase
from testbed.profile.speed import SteppedCurve
from tests.properties import examples
from tests.testbed.examples import write_profile

# ---- curves, by hand


def phases(*pairs: tuple[float, float]) -> list[Phase]:
    return [Phase(at=at, speed=multiple) for at, multiple in pairs]


PLAIN = SteppedCurve()
PHONE = SteppedCurve(phases((120, 0.5)))
"""Becomes hot: half speed from 120 s on."""
PI = SteppedCurve(phases((50, 0.3)), 60)
"""At 0.3 for the last 10 s of each minute: 53 s of work a minute."""
TURBO = SteppedCurve(phases((0, 2.0), (10, 1.0)))


@pytest.mark.parametrize(
    ("curve", "start", "end", "work"),
    [
        (PLAIN, 3.0, 10.0, 7.0),
        (PHONE, 0.0, 120.0, 120.0),
        (PHONE, 100.0, 140.0, 30.0),  # 20 + 20/2
        (PHONE, 120.0, 140.0, 10.0),
        (PHONE, 500.0, 501.0, 0.5),
        (PI, 0.0, 50.0, 50.0),
        (PI, 50.0, 60.0, 3.0),
        (PI, 0.0, 60.0, 53.0),
        (PI, 0.0, 600.0, 530.0),
        (PI, 55.0, 65.0, 6.5),  # 5 · 0.3 + 5
        (PI, 60.0, 70.0, 10.0),
        (PI, 110.0, 110.0, 0.0),
        (TURBO, 0.0, 5.0, 10.0),
        (TURBO, 5.0, 20.0, 20.0),
    ],
)
def test_work_and_its_end_equal_those_computed_by_hand(
    curve: SteppedCurve, start: float, end: float, work: float
) -> None:
    assert curve.work(start, end) == pytest.approx(work)
    assert curve.when(start, work) == pytest.approx(end)


def test_a_job_on_a_hot_phone_ends_later_than_on_a_cool_one() -> None:
    assert PHONE.when(0.0, 30.0) == 30.0
    assert PHONE.when(110.0, 30.0) == 160.0  # the first ten seconds at full speed
    assert PHONE.when(120.0, 30.0) == 180.0


@pytest.mark.parametrize(
    ("curve", "fastest"),
    [
        (PLAIN, 1.0),
        (PHONE, 1.0),
        (TURBO, 2.0),
        (SteppedCurve(phases((0, 0.5))), 0.5),  # it never runs at its normal speed
        (SteppedCurve(phases((0, 0.5), (3, 0.25)), 10), 0.5),
        (SteppedCurve(phases((1e-9, 0.5))), 1.0),
        (SteppedCurve(phases((5, 3.0)), 10), 3.0),
    ],
)
def test_the_fastest_multiple_is_one_that_is_reached(curve: SteppedCurve, fastest: float) -> None:
    assert curve.fastest == fastest


# ---- curves, in general

MOMENTS = st.lists(st.floats(0, 100), unique=True, max_size=5).map(sorted)
SPEEDS = st.floats(0.1, 4.0)


@st.composite
def curves_and_starts(draw: st.DrawFn) -> tuple[SteppedCurve, float]:
    """Draw a curve, and a moment that often coincides with a change of speed."""
    moments = draw(MOMENTS)
    if moments and draw(st.booleans()):
        moments[0] = 0.0
    period = draw(st.none() | st.floats(1, 50)) if moments else None
    period = None if period is None else moments[-1] + period
    boundaries = [*moments, *([] if period is None else [k * period + m for k in range(4) for m in (0.0, *moments)])]
    start = draw(st.floats(0, 1000) | (st.sampled_from(boundaries) if boundaries else st.just(0.0)))
    return SteppedCurve([Phase(at=at, speed=draw(SPEEDS)) for at in moments], period), start


@examples(100)
@given(curves_and_starts(), st.floats(0, 1000))
def test_when_inverts_work(given_curve: tuple[SteppedCurve, float], seconds: float) -> None:
    curve, start = given_curve
    end = start + seconds
    assert curve.when(start, curve.work(start, end)) == pytest.approx(end, rel=1e-9, abs=1e-9)


@examples(100)
@given(curves_and_starts(), st.floats(0, 1000))
def test_work_inverts_when(given_curve: tuple[SteppedCurve, float], work: float) -> None:
    curve, start = given_curve
    end = curve.when(start, work)
    assert end >= start
    assert curve.work(start, end) == pytest.approx(work, rel=1e-9, abs=1e-9)


@examples(100)
@given(curves_and_starts(), st.floats(0, 500), st.floats(0, 500))
def test_work_adds_up(given_curve: tuple[SteppedCurve, float], first: float, second: float) -> None:
    curve, start = given_curve
    middle, end = start + first, start + first + second
    assert curve.work(start, middle) + curve.work(middle, end) == pytest.approx(curve.work(start, end), abs=1e-8)


@examples(100)
@given(
    st.lists(st.integers(0, 12), unique=True, min_size=1, max_size=4).map(sorted),
    st.lists(SPEEDS, min_size=4, max_size=4),
    st.none() | st.integers(1, 8),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_work_is_the_sum_over_the_seconds(
    moments: list[int], speeds: list[float], rest: int | None, start: int, seconds: int
) -> None:
    period = None if rest is None else moments[-1] + rest
    steps = [(0, 1.0), *zip(moments, speeds, strict=False)]

    def speed_at(second: int) -> float:
        within = second if period is None else second % period
        return [multiple for at, multiple in steps if at <= within][-1]

    curve = SteppedCurve(phases(*steps[1:]), period)
    expected = math.fsum(speed_at(second) for second in range(start, start + seconds))
    assert curve.work(start, start + seconds) == pytest.approx(expected)
    assert curve.fastest == max(speed_at(second) for second in range(period or moments[-1] + 1))


# ---- the four keys of a speed


SURVEY = Survey(
    flops_forward=168_448,
    flops_training=486_912,
    steps=(
        StepTime(samples=4, seconds=0.002, alone=0.001, slow=0.004),
        StepTime(samples=32, seconds=0.016, alone=0.008, slow=0.064),
    ),
)


def experiment(folder: Path, group: str, *, task: str = '"digits"', more: str = "") -> Any:
    text = f'strategy = "fedavg"\ntask = {task}\n{more}\n[[devices]]\nname = "x"\n{group}\n'
    return profile_loader.load(write_profile(folder, text))


def seconds_per_sample(folder: Path, group: str, **other: str) -> float | None:
    (device,) = fleet.concrete(experiment(folder, group, **other), SURVEY)
    return device.seconds_per_sample


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ("seconds_per_sample = 0.25", 0.25),
        ("seconds_per_sample = 1", 1.0),
        ("seconds_per_sample = { digits = 0.125 }", 0.125),
        ("clock_hz = 2e9, cycles_per_sample = 1e6", 5e-4),  # ASAFL eq. 6
        ("clock_hz = 1.5e9, cycles_per_sample = 76_415_682.5", 0.050943788),
        ("clock_hz = 2e9, cycles_per_sample = { digits = 4e6, speech = 1 }", 2e-3),
        ("clock_hz = 1e9", 4.2112e-5),  # 168,448 ÷ 4 ÷ 10⁹
        ("flop_per_second = 1e9", 4.86912e-4),
        ("of_host = 0.5", 1e-3),  # 16 ms ÷ 32 ÷ 0.5: measured while other cores are busy
        ("of_host = 1.0", 5e-4),
    ],
)
def test_each_key_gives_the_seconds_computed_by_hand(tmp_path: Path, keys: str, seconds: float) -> None:
    assert seconds_per_sample(tmp_path, f"profile = {{ {keys} }}") == pytest.approx(seconds, rel=1e-7)


def test_a_share_of_the_host_is_measured_at_the_batch_size_of_the_run(tmp_path: Path) -> None:
    shared = seconds_per_sample(tmp_path, "profile = { of_host = 0.5 }", more="training.batch = 4")
    assert shared == pytest.approx(0.002 / 4 / 0.5)


def test_a_device_that_is_not_throttled_has_no_speed(tmp_path: Path) -> None:
    assert seconds_per_sample(tmp_path, 'profile = "host"') is None


@pytest.mark.parametrize("profile", ["seconds_per_sample = 9", "clock_hz = 1e9, cycles_per_sample = 5", "of_host = 1"])
@pytest.mark.parametrize(
    ("group", "seconds"),
    [
        ("seconds_per_sample = 0.5", 0.5),
        ("clock_hz = 1e9", 4.2112e-5),  # the cycles in the profile belong to its own clock
        ("clock_hz = 1e9\ncycles_per_sample = 3e9", 3.0),
        ("flop_per_second = 486_912", 1.0),
        ("of_host = 0.25", 2e-3),
    ],
)
def test_a_speed_of_the_group_replaces_that_of_the_profile_completely(
    tmp_path: Path, profile: str, group: str, seconds: float
) -> None:
    assert seconds_per_sample(tmp_path, f"{group}\nprofile = {{ {profile} }}") == pytest.approx(seconds)


TABLE = '{ digits = 1.0, "digits:cnn" = 4.0, "speech:cnn" = 9.0 }'


@pytest.mark.parametrize(
    ("task", "seconds"),
    [
        ('"digits"', 1.0),
        ('{ name = "digits", model = "cnn" }', 4.0),
        ('{ name = "digits", model = "small-cnn" }', 1.0),
    ],
)
@pytest.mark.parametrize("keys", [f"seconds_per_sample = {TABLE}", f"clock_hz = 1.0, cycles_per_sample = {TABLE}"])
def test_a_speed_for_the_model_overrides_one_for_the_task(tmp_path: Path, task: str, seconds: float, keys: str) -> None:
    assert seconds_per_sample(tmp_path, f"profile = {{ {keys} }}", task=task) == seconds


def test_a_speed_for_the_model_applies_to_the_default_model(tmp_path: Path) -> None:
    keys = 'seconds_per_sample = { "digits:small-cnn" = 0.5 }'
    assert seconds_per_sample(tmp_path, f"profile = {{ {keys} }}") == 0.5


@pytest.mark.parametrize(
    ("keys", "needed"),
    [
        ("seconds_per_sample = 1", False),
        ("of_host = 1", False),
        ("clock_hz = 1e9, cycles_per_sample = 5", False),
        ("clock_hz = 1e9, cycles_per_sample = { digits = 5 }", False),
        ("clock_hz = 1e9", True),
        ("flop_per_second = 1e9", True),
    ],
)
def test_flops_are_counted_only_if_a_speed_depends_on_them(tmp_path: Path, keys: str, needed: bool) -> None:
    assert speed.needs_flops(experiment(tmp_path, f"profile = {{ {keys} }}")) is needed


DERIVED = 'seconds_per_sample = { digits = 1.0, "small-cnn" = 2.0 }, derived_speeds = ["small-cnn"]'


@pytest.mark.parametrize(
    ("group", "model", "key"),
    [
        (f"profile = {{ {DERIVED} }}", "small-cnn", "small-cnn"),
        (f"profile = {{ {DERIVED} }}", "cnn", None),
        (f"profile = {{ {DERIVED} }}\nseconds_per_sample = 2.0", "small-cnn", None),
        (f"profile = {{ {DERIVED} }}\nflop_per_second = 1e9", "small-cnn", None),
        ('profile = "rpi4"', "small-cnn", None),
        ('profile = "rpi4"', "small-cnn-bn", "small-cnn-bn"),
        ('profile = "host"', "small-cnn-bn", None),
    ],
)
def test_it_is_known_whether_the_speed_of_a_task_was_computed_from_flops(
    tmp_path: Path, group: str, model: str, key: str | None
) -> None:
    made = experiment(tmp_path, group, task=f'{{ name = "digits", model = "{model}" }}')
    [only] = made.devices
    assert isinstance(only.profile, DeviceProfile)
    assert speed.derived_speed(only, only.profile, made) == key


# ---- refusals

OK = 'profile = "rpi4"'
BAD_SPEEDS = {
    "two speeds in a profile": (
        "profile = { seconds_per_sample = 1, clock_hz = 1e9 }",
        ["devices[0].profile.clock_hz is given in addition to seconds_per_sample", "only one"],
    ),
    "two speeds in a group": (
        f"{OK}\nflop_per_second = 1e9\nof_host = 0.5",
        ["devices[0].of_host is given in addition to flop_per_second", "only one"],
    ),
    "no speed at all": (
        "profile = {}",
        ["devices[0].seconds_per_sample is missing", "seconds_per_sample, clock_hz, flop_per_second, of_host"],
    ),
    "an empty table": ("profile = { seconds_per_sample = {} }", ["devices[0].seconds_per_sample is missing"]),
    "cycles without a clock": (
        "profile = { cycles_per_sample = 5 }",
        ["devices[0].profile.cycles_per_sample is given without clock_hz"],
    ),
    "cycles of a group without a clock in the group": (
        "profile = { clock_hz = 1e9 }\ncycles_per_sample = 5",
        ["devices[0].cycles_per_sample is given without clock_hz"],
    ),
    "a derived speed that is not given": (
        'profile = { seconds_per_sample = { digits = 1.0 }, derived_speeds = ["cnn"] }',
        ["devices[0].profile.derived_speeds has 'cnn', which is no key of seconds_per_sample", "give its speed there"],
    ),
    "NaN": ("profile = { seconds_per_sample = nan }", ["devices[0].profile.seconds_per_sample is nan", "finite"]),
    "infinity": ("profile = { clock_hz = inf }", ["devices[0].profile.clock_hz is inf", "finite"]),
    "minus infinity": (f"{OK}\nflop_per_second = -inf", ["devices[0].flop_per_second is -inf", "finite"]),
    "zero": (f"{OK}\nseconds_per_sample = 0", ["devices[0].seconds_per_sample is 0", "at least 1e-09"]),
    "negative": (f"{OK}\nclock_hz = -1e9", ["devices[0].clock_hz is -1000000000.0", "at least 1"]),
    "zero in a table": (
        "profile = { seconds_per_sample = { digits = 0.0 } }",
        ["devices[0].profile.seconds_per_sample.digits is 0.0", "at least 1e-09"],
    ),
    "NaN in a table": (
        f"{OK}\nclock_hz = 1.0\ncycles_per_sample = {{ digits = nan }}",
        ["devices[0].cycles_per_sample.digits is nan", "finite"],
    ),
    "a boolean for a number": (
        f"{OK}\nseconds_per_sample = true",
        ["devices[0].seconds_per_sample is True", "a number"],
    ),
    "a string for a number": (f'{OK}\nof_host = "half"', ["devices[0].of_host is 'half'", "a number"]),
    "more than the host": (f"{OK}\nof_host = 1.5", ["devices[0].of_host is 1.5", "at most 1"]),
    "a schedule out of order": (
        f"{OK}\nschedule = [{{ at = 5, speed = 1 }}, {{ at = 3, speed = 1 }}]",
        ["devices[0].schedule[1].at is 3", "follow each other"],
    ),
    "two phases at one moment": (
        f"{OK}\nschedule = [{{ at = 5, speed = 1 }}, {{ at = 5, speed = 2 }}]",
        ["devices[0].schedule[1].at is 5", "follow each other"],
    ),
    "a profile's schedule out of order": (
        "profile = { of_host = 1, schedule = [{ at = 5, speed = 1 }, { at = 3, speed = 1 }] }",
        ["devices[0].profile.schedule[1].at is 3", "follow each other"],
    ),
    "a phase with speed zero": (
        f"{OK}\nschedule = [{{ at = 5, speed = 0 }}]",
        ["devices[0].schedule[0].speed is 0", "at least 1e-06"],
    ),
    "a phase before the run": (
        f"{OK}\nschedule = [{{ at = -1, speed = 1 }}]",
        ["devices[0].schedule[0].at is -1", "at least 0"],
    ),
    "a phase at infinity": (
        f"{OK}\nschedule = [{{ at = inf, speed = 1 }}]",
        ["devices[0].schedule[0].at is inf", "finite"],
    ),
    "a phase without speed": (f"{OK}\nschedule = [{{ at = 5 }}]", ["devices[0].schedule[0].speed is missing"]),
    "a period that ends with the last phase": (
        f"{OK}\nschedule_period = 5\nschedule = [{{ at = 5, speed = 0.5 }}]",
        ["devices[0].schedule_period is 5", "last phase begins at 5"],
    ),
    "a period before the last phase": (
        f"{OK}\nschedule_period = 4\nschedule = [{{ at = 5, speed = 0.5 }}]",
        ["devices[0].schedule_period is 4", "last phase begins at 5"],
    ),
    "a period without a schedule": (
        f"{OK}\nschedule_period = 4",
        ["devices[0].schedule_period is given without a schedule"],
    ),
    "a schedule with a quota": (
        'profile = { of_host = 1, throttle = "cgroup", schedule = [{ at = 5, speed = 0.5 }] }',
        ["devices[0].schedule needs throttle = 'pace'", "'cgroup'"],
    ),
    "a group's schedule with signals": (
        'profile = { of_host = 1, throttle = "signal" }\nschedule = [{ at = 5, speed = 0.5 }]',
        ["devices[0].schedule needs throttle = 'pace'", "'signal'"],
    ),
}


@pytest.mark.parametrize("case", BAD_SPEEDS)
def test_a_wrong_speed_is_refused_with_file_key_and_remedy(tmp_path: Path, case: str) -> None:
    group, fragments = BAD_SPEEDS[case]
    with pytest.raises(ProfileError) as caught:
        experiment(tmp_path, group)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'mine.toml'}: ")
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize("key", ["seconds_per_sample = 0.5", "schedule = [{ at = 5, speed = 0.5 }]"])
def test_a_speed_for_a_device_that_is_not_throttled_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ProfileError):
        experiment(tmp_path, f'profile = "host"\n{key}')


# ---- curves under a script


@pytest.mark.parametrize(
    ("own", "script", "start", "end", "work"),
    [
        (PLAIN, [(10, 0.5), (20, 1.0)], 5.0, 25.0, 15.0),  # 5, 10/2, 5
        (PHONE, [(110, 0.5), (130, 1.0)], 100.0, 140.0, 22.5),  # 10, 10/2, 10/4, 10/2
        (PI, [(30, 2.0)], 0.0, 120.0, 182.0),  # 30, and twice 20 + 3 + 53
    ],
)
def test_a_script_multiplies_a_curve(
    own: SteppedCurve, script: list[tuple[float, float]], start: float, end: float, work: float
) -> None:
    changed = speed.ScaledCurve(own, phases(*script))
    expected = sum(
        multiple * own.work(max(start, begin), min(end, until))
        for (begin, multiple), until in zip([(0.0, 1.0), *script], [*(at for at, _ in script), math.inf], strict=True)
        if max(start, begin) < min(end, until)
    )
    assert changed.work(start, end) == pytest.approx(expected)
    assert changed.when(start, expected) == pytest.approx(end)
    assert expected == pytest.approx(work)


@examples(100)
@given(curves_and_starts(), MOMENTS, st.lists(SPEEDS, min_size=4, max_size=4), st.floats(0, 1000))
def test_when_inverts_work_under_a_script(
    given_curve: tuple[SteppedCurve, float], moments: list[float], speeds: list[float], seconds: float
) -> None:
    own, start = given_curve
    script = phases(*zip(moments, speeds, strict=False))
    changed, end = speed.ScaledCurve(own, script), start + seconds
    assert changed.when(start, changed.work(start, end)) == pytest.approx(end, rel=1e-9, abs=1e-9)


def test_the_fastest_multiple_under_a_script_is_at_most_the_product() -> None:
    assert speed.ScaledCurve(TURBO, phases((5, 3.0))).fastest == 6.0


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ("seconds_per_sample = { small-cnn = 0.5 }", 2.0),
        ("clock_hz = 2.0, cycles_per_sample = { small-cnn = 1.0 }", 2.0),
        ('seconds_per_sample = { "digits:small-cnn" = 0.5, small-cnn = 9.0 }', 0.5),
        ("seconds_per_sample = { digits = 0.5 }", 0.5),
        ("seconds_per_sample = 0.5", 0.5),
    ],
)
def test_a_speed_for_a_model_grows_with_a_network_that_is_larger_than_that_of_the_catalogue(
    tmp_path: Path, keys: str, seconds: float
) -> None:
    larger = msgspec.structs.replace(SURVEY, work=4.0)
    (device,) = fleet.concrete(experiment(tmp_path, f"profile = {{ {keys} }}"), larger)
    assert device.seconds_per_sample == seconds
