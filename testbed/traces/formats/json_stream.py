"""Reads the entries of a large JSON object one at a time, without loading the whole file."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from testbed.common.errors import UserError
from testbed.common.files.compressed import opened

_CHUNK = 1 << 20
_LOOKAHEAD = 16
_MOST_CHARACTERS = 64 << 20
"""The largest entry: when it is parsed, it needs about ten times as much memory."""
_SPACE = re.compile(r"[ \t\r\n]*")


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield key and value of each entry of the object in a JSON file. Raises UserError."""
    with opened(path) as file:
        yield from _Parser(file, path).entries()


class _Parser:
    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._text = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._decoder = json.JSONDecoder()
        self._buffer, self._place, self._before, self._ended = "", 0, 0, False

    def entries(self) -> Iterator[tuple[str, Any]]:
        self._expect("{", "an object: {…}")
        if self._next() == "}":
            self._place += 1
            return self._end()
        while True:
            key = self._value()
            if not isinstance(key, str):
                raise self._error("a key must be a string")
            self._expect(":", "':' after a key")
            yield key, self._value()
            if self._expect(",}", "',' or '}' after an entry") == "}":
                return self._end()

    def _end(self) -> None:
        if self._next():
            raise self._error("there is text after the end of the object")

    def _more(self) -> bool:
        """Double the buffer, so that a large value is parsed only a few times. Return False at the end of the file."""
        if self._ended:
            return False
        if len(self._buffer) - self._place > _MOST_CHARACTERS:
            raise UserError(
                f"{self._path}: one of its entries has more than {_MOST_CHARACTERS >> 20} MiB; divide it, or name"
                " another file"
            )
        chunk = self._file.read(max(_CHUNK, len(self._buffer) - self._place))
        self._ended = not chunk
        self._before += self._buffer.count("\n", 0, self._place)
        self._buffer = self._buffer[self._place :] + self._text.decode(chunk, final=self._ended)
        self._place = 0
        return True

    def _next(self) -> str:
        """Return the next character that is not a space; empty at the end."""
        while True:
            blank = _SPACE.match(self._buffer, self._place)
            assert blank is not None
            self._place = blank.end()
            if self._place < len(self._buffer):
                return self._buffer[self._place]
            if not self._more():
                return ""

    def _expect(self, wanted: str, meant: str) -> str:
        found = self._next()
        if not found or found not in wanted:
            raise self._error(f"{meant} is missing")
        self._place += 1
        return found

    def _value(self) -> Any:
        """Return the next value. Reads beyond its end: the buffer could end inside a number."""
        while True:
            self._next()
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._place)
            except (ValueError, RecursionError) as error:  # a number may have too many digits
                if not isinstance(error, json.JSONDecodeError) or not self._more():
                    raise self._error("a value is not valid or incomplete") from None
                continue
            if end + _LOOKAHEAD > len(self._buffer) and self._more():
                continue
            self._place = end
            return value

    def _error(self, problem: str) -> UserError:
        line = self._before + self._buffer.count("\n", 0, self._place) + 1
        return UserError(f"{self._path}, line {line}: not valid JSON: {problem}; get a new copy")
