"""Opens pages in a real browser: headless Chromium, controlled over a pipe (DevTools protocol).

A page is opened from its file, as a user would. The result has its text, its console messages and a screenshot.
There is no network: a page that needs it writes an error to the console.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
    "--proxy-server=127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
)
_PATIENCE = 60.0


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page as the browser shows it."""

    text: str
    """The visible text, without what is folded away."""
    html: str
    console: list[str]
    """Errors, warnings and other messages of the console."""
    answers: list[Any]
    """The values of the expressions."""


def open_page(
    path: Path,
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    media: str = "",
    expressions: Sequence[str] = (),
    screenshot: Path | None = None,
) -> Page:
    """Open a file at a width, in light or dark, on screen or as ``media`` ("print").

    Evaluates ``expressions`` (JavaScript) in it and writes the whole page to ``screenshot`` as PNG. Skips the test if
    there is no browser.
    """
    with _browser() as browser:
        return browser.open(path, width, height, dark, media, expressions, screenshot)


@contextlib.contextmanager
def _browser() -> Iterator[_Browser]:
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")
    ours, theirs = os.pipe(), os.pipe()

    def pass_pipes() -> None:
        """Make the pipes descriptors 3 and 4 of the browser, which reads and writes there."""
        reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs[0], ours[1]))
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={home}", "about:blank"],
            preexec_fn=pass_pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs[0])
        os.close(ours[1])
        try:
            browser = _Browser(ours[0], theirs[1])
            yield browser
            browser.call("Browser.close")
            process.wait(_PATIENCE)
        finally:
            process.kill()
            process.wait()
            os.close(ours[0])
            os.close(theirs[1])


@dataclass
class _Browser:
    reads: int
    writes: int
    console: list[str] = field(default_factory=list)
    loaded: bool = False
    _calls: int = 0
    _rest: bytes = b""

    def open(
        self,
        path: Path,
        width: int,
        height: int,
        dark: bool,
        media: str,
        expressions: Sequence[str],
        screenshot: Path | None,
    ) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable", session)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", session, media=media, features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", session, **size)
        self.loaded = False
        self.call("Page.navigate", session, url=path.resolve().as_uri())
        while not self.loaded:
            self._next_message()
        answers = [self._evaluate(expression, session) for expression in expressions]
        page = Page(
            text=self._evaluate("document.body.innerText", session),
            html=self._evaluate("document.documentElement.outerHTML", session),
            console=self.console,
            answers=answers,
        )
        if screenshot is not None:
            shot = self.call("Page.captureScreenshot", session, format="png", captureBeyondViewport=True)
            screenshot.write_bytes(base64.b64decode(shot["data"]))
        return page

    def _evaluate(self, expression: str, session: str) -> Any:
        answer = self.call("Runtime.evaluate", session, expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._calls += 1
        number = self._calls
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writes, data) :]
        while (answer := self._next_message()).get("id") != number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _next_message(self) -> dict[str, Any]:
        """The next message: an answer or an event."""
        limit = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.reads], [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"the browser was silent for {_PATIENCE:g} s"
            data = os.read(self.reads, 1 << 20)
            assert data, "the browser ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Page.loadEventFired":
                self.loaded = True
            case "Runtime.consoleAPICalled":
                words = (str(word.get("value", word.get("description", ""))) for word in params["args"])
                self.console.append(f"{params['type']}: {' '.join(words)}")
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.console.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
            case "Log.entryAdded":
                self.console.append(f"{params['entry']['level']}: {params['entry']['text']}")
            case _:
                pass
