"""Shakespeare by role: predict the next character after 80.

In a text, all speeches of a role are joined by newlines. The last tenth is the role's test text; a window lies entirely
before it or in it, so that training sees no character of the test text.
A role needs 81 characters for training, else it is left out; a role with fewer than 81 for testing is only used for
training. LEAF's JSON already contains windows, separated into training and test.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.common.progress_protocol import Progress
from testbed.learning.data.readers import data_file, leaf
from testbed.learning.data.readers.source import FoundFiles, Parsed, best

LENGTH = 80
TEXT = "tinyshakespeare.txt"
KNOWN: data_file.Known = {TEXT: ("6fb458f1232090904fb40fe944165e91",)}
_ANY_TEXT = "input.txt"
_CODES = 256

Codes = npt.NDArray[np.uint8]


class _Samples(msgspec.Struct):
    x: list[str]
    y: list[str]


def find(folder: Path) -> FoundFiles | None:
    """Return the files in the folder. ``input.txt`` may be any text; the other one must have a known checksum."""
    texts = [folder / name for name in (TEXT, _ANY_TEXT) if (folder / name).is_file()]
    plain = (FoundFiles(folder=folder, files=(path,), parse=partial(_parse_text, path)) for path in texts)
    return best((leaf.find(folder, _parse_json), *plain))


def _parse_text(path: Path, progress: Progress) -> Parsed:
    progress.start(f"reading {path.name}")
    data_file.check(path, KNOWN, f" (to use another text, name it {_ANY_TEXT})")
    try:
        text = data_file.unpacked(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise data_file.damaged(path, f"is not a text in UTF-8 ({error})") from None
    alphabet = _alphabet(path, set(text))
    lines = {role: "\n".join(speeches) for role, speeches in _speeches(path, text).items()}
    kept = {role: spoken for role, spoken in lines.items() if _cut(spoken) > LENGTH}
    if not kept:
        raise data_file.damaged(path, f"no role has more than {LENGTH} characters for training")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for part, choose in (("train", slice(0, 1)), ("test", slice(1, 2))):
        pieces = [_coded(piece, alphabet) for spoken in kept.values() for piece in _cut_up(spoken)[choose]]
        arrays |= {f"{part}_{name}": array for name, array in _windows(pieces).items()}
    if not len(arrays["test_starts"]):
        raise data_file.damaged(path, f"no role has more than {LENGTH} characters in its last tenth, for testing")
    return Parsed(arrays=arrays, classes=alphabet, owners=tuple(kept))


def _alphabet(path: Path, characters: set[str]) -> tuple[str, ...]:
    if len(characters) > _CODES:
        raise data_file.damaged(path, f"has {len(characters)} different characters; at most {_CODES} are possible")
    return tuple(sorted(characters))


def _speeches(path: Path, text: str) -> dict[str, list[str]]:
    """Return the speeches of each role. Blank lines separate them; the first line of one is the role and a colon."""
    spoken: dict[str, list[str]] = {}
    role = None
    for block in re.split(r"\n{2,}", text.strip("\n")):
        first, _, rest = block.partition("\n")
        if first.endswith(":"):
            role, block = first[:-1], rest
        if role is None:
            raise data_file.damaged(
                path, f"its first line is {first[:40]!r}; it must be the name of a role and a colon"
            )
        spoken.setdefault(role, []).append(block)
    return spoken


def _cut(spoken: str) -> int:
    return len(spoken) - len(spoken) // 10


def _cut_up(spoken: str) -> tuple[str, str]:
    """Return the training text and the test text, which is the last tenth."""
    return spoken[: _cut(spoken)], spoken[_cut(spoken) :]


def _coded(text: str, alphabet: tuple[str, ...]) -> Codes:
    """Return the positions of the characters in the sorted alphabet."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return np.searchsorted(np.array([ord(letter) for letter in alphabet]), points).astype(np.uint8)


def _windows(pieces: list[Codes]) -> dict[str, npt.NDArray[Any]]:
    """Return a window at every position of each piece, if a character follows it; piece k belongs to owner k."""
    text = np.concatenate(pieces)
    counts = np.array([max(0, len(piece) - LENGTH) for piece in pieces])
    offsets = np.cumsum([0, *(len(piece) for piece in pieces[:-1])])
    starts = np.concatenate(
        [np.arange(offset, offset + count) for offset, count in zip(offsets, counts, strict=True)]
    ).astype(np.int64)
    owners = np.repeat(np.arange(len(pieces), dtype=np.int32), counts)
    return {"text": text, "starts": starts, "targets": text[starts + LENGTH], "owners": owners}


def _parse_json(parts: leaf.Parts, progress: Progress) -> Parsed:
    """Parse LEAF's windows. Windows that overlap except for one character are stored as one text."""
    numbers: dict[str, int] = {}
    texts: dict[str, str] = {}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for part, paths in parts.items():
        pieces, starts, owners = [], [], []
        at, last = 0, ""
        for path, user, samples in leaf.samples(paths, _Samples, progress):
            _check(path, user, samples)
            owners += [numbers.setdefault(user, len(numbers))] * len(samples.x)
            for window, following in zip(samples.x, samples.y, strict=True):
                new = following if window == last else window + following
                pieces.append(new)
                at += len(new)
                starts.append(at - LENGTH - 1)
                last = window[1:] + following
            last = ""
        if not starts:
            raise data_file.damaged(paths[0], f"there are no samples in {part}")
        texts[part] = "".join(pieces)
        arrays |= {f"{part}_starts": np.array(starts, np.int64), f"{part}_owners": np.array(owners, np.int32)}
    alphabet = _alphabet(parts["train"][0], set(texts["train"]) | set(texts["test"]))
    for part, text in texts.items():
        codes = arrays[f"{part}_text"] = _coded(text, alphabet)
        arrays[f"{part}_targets"] = codes[arrays[f"{part}_starts"] + LENGTH]
    return Parsed(arrays=arrays, classes=alphabet, owners=tuple(numbers))


def _check(path: Path, user: str, samples: _Samples) -> None:
    if len(samples.x) != len(samples.y):
        raise data_file.damaged(path, f"user {user!r} has {len(samples.x)} samples and {len(samples.y)} labels")
    if any(len(window) != LENGTH for window in samples.x) or any(len(letter) != 1 for letter in samples.y):
        raise data_file.damaged(
            path, f"a sample of user {user!r} does not have {LENGTH} characters and one next character"
        )
