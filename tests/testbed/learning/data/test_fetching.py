from __future__ import annotations

import gzip
import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.learning.data import fetching, folders
from testbed.learning.data.data_sources import SOURCES
from testbed.learning.data.loader import load
from testbed.learning.data.readers import mnist
from testbed.learning.data.readers.source import Remote
from tests.testbed.learning.data.files import TEST, TRAIN, RecordedProgress, digits, idx, labels, write


def qmnist(count: int) -> bytes:
    rows = np.zeros((count, 8), np.int32)
    rows[:, 0] = labels(count)
    return gzip.compress(idx(rows))


TRAIN_WRITERS, TEST_WRITERS = "qmnist-train-labels-idx2-int.gz", "qmnist-test-labels-idx2-int.gz"
WRITERS = {TRAIN_WRITERS: qmnist(TRAIN), TEST_WRITERS: qmnist(TEST)}
CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """A local server that can be made to misbehave."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/file": CONTENT}
        self.ranges: list[str | None] = []
        self.cuts: list[int] = []
        """Number of bytes after which each of the next responses ends too early."""
        self.resumes = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.ranges.append(wanted)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.resumes else 0
        if start and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        rest = content[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: self.server.cuts.pop(0)] if self.server.cuts else rest)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv(folders.OFFLINE, "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def remote(server: Server, *paths: str, md5: str = MD5) -> Remote:
    return Remote(name="wanted", md5=md5, urls=tuple(server.url + path for path in paths or ("/file",)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_with_its_progress(server: Server, tmp_path: Path) -> None:
    progress = RecordedProgress()
    path = fetching.fetch(remote(server), tmp_path / "new/folder", progress)
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["wanted"]
    assert progress.steps[-1] == ("downloading wanted", len(CONTENT), len(CONTENT))


def test_an_existing_file_is_not_downloaded(server: Server, folder: Path) -> None:
    (folder / "wanted").write_bytes(b"mine")
    assert fetching.fetch(remote(server), folder, RecordedProgress()).read_bytes() == b"mine"
    assert server.ranges == []


def test_an_interrupted_download_is_continued(server: Server, folder: Path) -> None:
    server.cuts = [300_000, 500_000]
    assert fetching.fetch(remote(server), folder, RecordedProgress()).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", "bytes=800000-"]


def test_repeated_interruptions_are_an_error_and_leave_a_part(server: Server, folder: Path) -> None:
    server.cuts = [1000] * 10
    with pytest.raises(fetching.DownloadFailed, match="the connection ended after 3000 of 1024000 bytes"):
        fetching.fetch(remote(server), folder, RecordedProgress())
    assert names(folder) == ["wanted.part"]
    server.cuts = []
    assert fetching.fetch(remote(server), folder, RecordedProgress()).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=3000-"


def test_a_server_that_cannot_resume_sends_the_whole_file(server: Server, folder: Path) -> None:
    (folder / "wanted.part").write_bytes(CONTENT[:500])
    server.resumes = False
    assert fetching.fetch(remote(server), folder, RecordedProgress()).read_bytes() == CONTENT


@pytest.mark.parametrize("rest", [b"of something else", b"x" * (len(CONTENT) + 5)])
def test_a_part_of_another_file_is_discarded(server: Server, folder: Path, rest: bytes) -> None:
    (folder / "wanted.part").write_bytes(rest)
    assert fetching.fetch(remote(server), folder, RecordedProgress()).read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(rest)}-", None]


def test_a_complete_part_is_used(server: Server, folder: Path) -> None:
    (folder / "wanted.part").write_bytes(CONTENT)
    assert fetching.fetch(remote(server), folder, RecordedProgress()).read_bytes() == CONTENT


def test_a_file_with_a_wrong_checksum_is_refused_and_discarded(server: Server, folder: Path) -> None:
    with pytest.raises(fetching.DownloadFailed, match=f"/file: its md5 is {MD5} instead of {'0' * 32}"):
        fetching.fetch(remote(server, md5="0" * 32), folder, RecordedProgress())
    assert not (folder / "wanted").exists()
    assert (folder / "wanted.part").stat().st_size == 0
    assert len(server.ranges) == 1


def test_mirrors_are_tried_in_order(server: Server, folder: Path) -> None:
    server.files["/wrong"] = b"something else"
    progress = RecordedProgress()
    assert fetching.fetch(remote(server, "/none", "/wrong", "/file"), folder, progress).read_bytes() == CONTENT


def test_the_error_gives_a_reason_for_every_mirror(server: Server, folder: Path) -> None:
    closed = Remote(name="wanted", md5=MD5, urls=(f"{server.url}/none", "http://127.0.0.1:9/file"))
    with pytest.raises(fetching.DownloadFailed, match=r"/none: HTTP 404 .*; http://127\.0\.0\.1:9/file: .*refused"):
        fetching.fetch(closed, folder, RecordedProgress())


def test_a_server_that_does_not_respond_is_an_error(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_TIMEOUT", 0.1)
    released = threading.Event()
    monkeypatch.setattr(Handler, "do_GET", lambda self: released.wait(10))
    with pytest.raises(fetching.DownloadFailed, match="timed out"):
        fetching.fetch(remote(server), folder, RecordedProgress())
    released.set()


def test_an_interrupted_download_does_not_have_the_name_of_the_file(server: Server, folder: Path) -> None:
    class Interrupting(RecordedProgress):
        def start(self, what: str, done: int = 0, total: int | None = None) -> None:
            if done:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetching.fetch(remote(server), folder, Interrupting())
    assert names(folder) == ["wanted.part"]


def test_simultaneous_downloads_are_one_download(server: Server, folder: Path) -> None:
    threads = [
        threading.Thread(target=fetching.fetch, args=(remote(server), folder, RecordedProgress())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(folder) == ["wanted"]
    assert (folder / "wanted").read_bytes() == CONTENT
    assert len(server.ranges) == 1


@pytest.fixture
def offered(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Offer a tiny MNIST, without its writers, on the local server."""
    remotes, known = [], {}
    for plain, content in digits().items():
        name, packed = f"{plain}.gz", gzip.compress(content)
        server.files[f"/{name}"] = packed
        md5 = hashlib.md5(packed).hexdigest()
        known[name] = (md5,)
        remotes.append(Remote(name=name, md5=md5, urls=(f"{server.url}/{name}",)))
    for name, content in WRITERS.items():
        md5 = hashlib.md5(content).hexdigest()
        known[name] = (md5,)
        remotes.append(Remote(name=name, md5=md5, urls=(f"{server.url}/{name}",), optional="who wrote what"))
    find = partial(mnist.find, known, tuple("0123456789"))
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], remotes=tuple(remotes), find=find))
    return server


def offer_writers(server: Server) -> None:
    server.files |= {f"/{name}": content for name, content in WRITERS.items()}


def age_parts(seconds: float) -> None:
    """Make failed downloads look older."""
    for part in folders.downloads().rglob("*.part"):
        then = part.stat().st_mtime - seconds
        os.utime(part, (then, then))


def test_a_data_set_is_downloaded_into_the_cache_once(offered: Server, tmp_path: Path) -> None:
    progress = RecordedProgress()
    assert len(load("mnist", None, progress).train) == TRAIN
    assert len(names(tmp_path / "cache/edgebed/data/mnist")) == 6, "four files, and two empty parts"
    assert progress.texts == [
        f"mnist: {name} (who wrote what) was not downloaded: {offered.url}/{name}: HTTP 404 Not Found"
        for name in WRITERS
    ]
    asked = len(offered.ranges)
    load("mnist", None)
    assert len(offered.ranges) == asked


def test_a_file_that_is_missing_in_the_cache_is_downloaded(offered: Server) -> None:
    load("mnist", None)
    (folders.downloads() / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    asked = len(offered.ranges)
    load("mnist", None)
    assert len(offered.ranges) == asked + 3, "the file, and the two optional ones"


def test_a_failed_download_of_writers_is_tried_again_a_day_later(offered: Server) -> None:
    assert load("mnist", None).train.owners is None
    offer_writers(offered)
    age_parts(86_000)
    assert load("mnist", None).train.owners is None
    age_parts(401)
    assert load("mnist", None).train.owners is not None
    asked = len(offered.ranges)
    load("mnist", None)
    assert len(offered.ranges) == asked


def test_only_one_optional_file_is_tried_each_day_while_downloads_fail(offered: Server) -> None:
    load("mnist", None)
    for _ in range(2):
        age_parts(90_000)
        asked, progress = len(offered.ranges), RecordedProgress()
        assert len(load("mnist", None, progress).train) == TRAIN
        load("mnist", None)
        assert len(offered.ranges) == asked + 1
        assert [text.split(" (")[0] for text in progress.texts] == [f"mnist: {TRAIN_WRITERS}"]


def test_writers_are_downloaded_for_files_that_the_user_put_into_the_cache(offered: Server) -> None:
    write(folders.downloads() / "mnist", digits())
    offer_writers(offered)
    assert load("mnist", None).owners == ("0",)


def test_one_of_two_files_of_writers_is_kept_and_the_other_is_named(offered: Server) -> None:
    write(folders.downloads() / "mnist", digits())
    offered.files[f"/{TRAIN_WRITERS}"] = WRITERS[TRAIN_WRITERS]
    assert load("mnist", None).train.owners_from.startswith(f"put {TEST_WRITERS} (from http")


def test_writers_are_not_downloaded_offline_or_into_the_users_own_folder(
    offered: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_writers(offered)
    write(folder / "mnist", digits())
    assert load("mnist", folder).train.owners is None
    write(folders.downloads() / "mnist", digits())
    monkeypatch.setenv(folders.OFFLINE, "1")
    assert load("mnist", None).train.owners is None
    assert offered.ranges == []


@pytest.mark.parametrize("stopped", ["fetch", "tried"])
def test_a_read_only_cache_is_used_as_it_is(offered: Server, stopped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    offer_writers(offered)
    write(folders.downloads() / "mnist", digits())
    monkeypatch.setattr(fetching, stopped, refuse)
    assert load("mnist", None).train.owners is None


def test_a_failed_download_is_an_error_with_reason_and_remedy(offered: Server) -> None:
    del offered.files["/t10k-images-idx3-ubyte.gz"]
    with pytest.raises(UserError) as caught:
        load("mnist", None)
    text = str(caught.value)
    assert f"could not be downloaded ({offered.url}/t10k-images-idx3-ubyte.gz: HTTP 404 Not Found)" in text
    assert "put t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz (from http" in text, "the other two are present"


def test_offline_nothing_is_requested(offered: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folders.OFFLINE, "1")
    with pytest.raises(UserError, match="EDGEBED_OFFLINE forbids a download"):
        load("mnist", None)
    assert offered.ranges == []


@pytest.mark.usefixtures("offered")
def test_a_folder_that_cannot_be_written_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(UserError, match=r"data/mnist: cannot be written: .* XDG_CACHE_HOME"):
        load("mnist", None)
