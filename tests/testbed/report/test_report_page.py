"""The page as text: its contents, what it leaves out, and that no name becomes markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from testbed.execution import report_writing
from testbed.history import trace
from testbed.history.trace import Event
from tests.testbed.report.examples import HEADER, NASTY, SMALL, gathered, large, renamed, without_power, write

_VOID = ("meta", "link", "br", "hr", "img", "input")


class Read(HTMLParser):
    """Collects elements, ids, scripts and addresses, and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.scripts: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)


def page(folder: Path, events: list[Event] | None = None, *, beside: bool = False) -> str:
    path = write(folder, SMALL if events is None else events, beside=beside)
    [out] = report_writing.write(gathered(path), folder / "report.html")
    return out.read_text(encoding="utf-8")


def said(text: str) -> str:
    """The text of a page without tags, in one line."""
    return " ".join(html.unescape(re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", text, flags=re.S)).split())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(tmp_path_factory.mktemp("whole"), beside=True)


def test_the_page_is_in_order(whole: str) -> None:
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", whole)
    assert titles == [
        "What was run",
        "Fidelity certificate",
        "Replay certificate",
        "Key figures",
        "Learning",
        "The fleet over time",
        "Staleness",
        "Energy",
        "Contribution and local loss",
        "Versions",
        "Devices",
        "Profile, packages and host",
    ]


def test_the_page_is_well_formed_and_has_no_name_twice(whole: str) -> None:
    read = Read(whole)
    assert read.open == []
    assert len(read.ids) == len(set(read.ids))
    assert read.tags.count("svg") == read.tags.count("figcaption") == 10


def test_the_page_needs_nothing_else(whole: str) -> None:
    outside = [address for address in Read(whole).addresses if not address.startswith(("#", "data:image/png;base64,"))]
    assert outside == []
    assert "@import" not in whole
    assert "url(http" not in whole


def test_no_script_runs_but_ours(whole: str) -> None:
    read = Read(whole)
    [script] = read.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in whole
    assert read.handlers == []


def test_the_verdict_comes_first(whole: str) -> None:
    text = said(whole)
    assert text.index("fidelity: WARN") < text.index("What was run")
    assert "WARN : 1 of 2 invariants hold." in text
    assert "step time p99 ≤ 5 % 1% off PASS" in text
    assert "loss exact 1 of 3 lost; worst: b WARN" in text


def test_the_certificate_of_a_replay(whole: str) -> None:
    text = said(whole)
    assert (
        "Replay certificate strict replay of runs/old/trace.jsonl: 100.0 % of 2 arrivals in the recorded order;" in text
    )
    assert "computing 2 1 ms 2 ms 3 ms" in text


def test_profile_and_packages_are_folded(whole: str) -> None:
    assert whole.count("<details>") == 3
    text = said(whole)
    assert 'task = { name = "digits", model = "small-cnn" }' in text
    assert "torch 2.13.0" in text
    assert "a processor, 2 cores, 8 GB" in text
    assert "Sources of the watts in the energy proxy by hand" in text


# ---- missing parts


def test_the_page_of_a_bare_trace_names_the_missing_files(tmp_path: Path) -> None:
    text = said(page(tmp_path))
    assert "fidelity: not certified" in text
    assert "Not certified: there is no fidelity.json beside the trace" in text
    assert "There is no profile.toml beside the trace." in text
    assert "There is no meta.json beside the trace." in text
    assert "Replay certificate" not in text
    assert "This is not a whole run" not in text


def test_a_replay_without_its_certificate_says_so(tmp_path: Path) -> None:
    header = msgspec.structs.replace(HEADER, replay="schedule")
    assert "This run was a replay (schedule); there is no readable replay.json" in said(
        page(tmp_path, [header, *SMALL[1:]])
    )


def test_a_killed_run_has_a_banner_and_all_known_figures(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL[:-1])
    path.write_bytes(path.read_bytes() + b'{"kind":"arri')
    [out] = report_writing.write(gathered(path), tmp_path / "report.html")
    text = said(out.read_text(encoding="utf-8"))
    assert "This run is incomplete." in text
    assert f"line {len(SMALL)}: is torn, as a crash leaves it" in text
    assert "The trace has no end: the run continues or was killed. It is shown up to second 7.0." in text
    assert "final accuracy 0.750" in text


def test_a_run_in_which_nothing_was_scored(tmp_path: Path) -> None:
    text = said(page(tmp_path, [event for event in SMALL if not isinstance(event, trace.Scored)]))
    assert "final accuracy – no version was scored" in text
    assert "Learning No version was scored." in text


def test_a_fleet_without_power_models_has_no_joules(tmp_path: Path) -> None:
    text = said(page(tmp_path, without_power(SMALL, "a", "b")))
    assert "energy no power model so there are no joules" in text
    assert "0.5 4.0 s no power model" in text
    assert re.search(r"\d J\b", text) is None


def test_measures_of_rounds_name_their_paper(tmp_path: Path, whole: str) -> None:
    ended = trace.Round(t=7.0, number=1, devices=["a", "b"], seconds=[2.0, 3.0])
    text = said(page(tmp_path, [*SMALL[:-1], ended, SMALL[-1]]))
    assert "rounds 1 Σ(max − min) 1.0 s E_proxy 50 J Σ P·τ of the rounds" in text
    assert "E_proxy are the measures of Forootani and Iervolino (2025)" in text
    assert "E_proxy" not in said(whole)


def test_a_run_that_only_began_is_a_page(tmp_path: Path) -> None:
    text = page(tmp_path, [HEADER])
    assert "No device joined." in said(text)
    assert Read(text).open == []


# ---- names


def test_a_nasty_name_is_text_wherever_it_stands(tmp_path: Path) -> None:
    header = msgspec.structs.replace(
        HEADER, name=NASTY, strategy=NASTY, parameters={NASTY: NASTY}, host=NASTY, replay=NASTY
    )
    stopped = trace.Stopped(t=8.0, reason=NASTY, version=2, in_flight=0, silent=[NASTY])
    scored = trace.Scored(t=7.5, version=2, made=7.0, metrics={NASTY: 0.5})
    events = renamed([header, *SMALL[1:-1], scored, stopped], a=NASTY, b='"><img src=x onerror=alert(1)>')
    (tmp_path / "profile.toml").write_text(f'task = "{NASTY}"\n# </pre></details>{NASTY}', encoding="utf-8")
    line = dict.fromkeys(("name", "found", "limits", "worst"), NASTY) | {"verdict": "FAIL"}
    certificate = {"verdict": "FAIL", "invariants": [line]}
    (tmp_path / "fidelity.json").write_text(json.dumps(certificate), encoding="utf-8")
    (tmp_path / "replay.json").write_text(json.dumps({"trace": NASTY, "mode": 5}), encoding="utf-8")
    (tmp_path / "meta.json").write_text(f'{{"packages": {{"{NASTY}": "{NASTY}"}}}}', encoding="utf-8")
    read = Read(page(tmp_path, events))
    assert read.tags.count("script") == 1
    assert "img" not in read.tags
    assert read.handlers == []
    assert read.open == []
    assert len(read.ids) == len(set(read.ids))


def test_control_characters_in_names_are_accepted(tmp_path: Path) -> None:
    odd = "a\x00\x07\x1b[31m\ufffe\n\tz"
    header = msgspec.structs.replace(HEADER, name=odd, parameters={odd: odd})
    scored = trace.Scored(t=7.5, version=2, made=7.0, metrics={odd: 0.5})
    text = page(tmp_path, renamed([header, *SMALL[1:-1], scored, SMALL[-1]], a=odd))
    assert re.search("[\x00-\x08\x0b-\x1f\ufffe]", text) is None
    assert "a\ufffd\ufffd\ufffd[31m\ufffd" in text
    assert Read(text).open == []


# ---- long runs


@pytest.mark.slow
def test_the_page_of_100_devices_over_10_minutes_is_small(tmp_path: Path) -> None:
    assert len(page(tmp_path, list(large(100, 600.0))).encode()) < 8_000_000
