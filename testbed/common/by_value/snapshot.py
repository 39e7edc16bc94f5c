"""An object as it is at one moment, in memory without a name (memfd) that other processes can map.

Theory of operation
    cloudpickle writes classes and functions that no module has by value, and all others by name. Large arrays are
    written beside the pickle (protocol 5): the receiver maps them, privately and on demand, so that all processes of a
    run share one copy, however many there are.

    The memory is sealed: nobody can change it, and no path leads to it. It is passed on as a descriptor, over the
    socket that only the launcher can write to, and the kernel frees it with its last user.

    This is the one place that runs what it reads. What it reads was written by the user's own process, as the function
    calls that the launcher sends to its templates are. No file and no message of another process is ever read here.

    A snapshot must not be loaded in the process that took it: cloudpickle finds the class there, and sets all its
    attributes again.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import io
import mmap
import os
import struct
import weakref
from dataclasses import dataclass
from typing import Any

_NUMBER = struct.Struct("<Q")
_ALIGNED = 64
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class NotPicklable(Exception):
    """An object cannot be written by value; the text says why."""


@dataclass(frozen=True)
class ObjectSnapshot:
    """A digest of its bytes, and the memory that has them; −1 if another process has it."""

    digest: str
    descriptor: int


def take(value: Any) -> ObjectSnapshot:
    """Write an object into memory of its own. Raises NotPicklable."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Writes the one value by which fields of dataclasses are compared by name: a copy would not be the same."""

        def reducer_override(self, obj: Any) -> Any:
            return "MISSING" if obj is dataclasses.MISSING else super().reducer_override(obj)

    buffers: list[Any] = []
    file = io.BytesIO()
    try:
        Pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    except Exception as error:
        raise NotPicklable(" ".join(f"{error}".split()) or type(error).__name__) from error
    parts = [file.getbuffer(), *(buffer.raw() for buffer in buffers)]
    descriptor, digest = os.memfd_create("edgebed-object", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), hashlib.sha256()
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        for number in (len(parts), *(len(part) for part in parts)):
            memory.write(_NUMBER.pack(number))
        for part in parts:
            memory.write(bytes(-memory.tell() % _ALIGNED))
            memory.write(part)
            digest.update(part)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    made = ObjectSnapshot(digest=digest.hexdigest(), descriptor=descriptor)
    weakref.finalize(made, os.close, descriptor)
    return made


def load(descriptor: int) -> Any:
    """Return the object of a snapshot that another process has taken. Raises what loading it raises."""
    import cloudpickle

    view = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    count = _NUMBER.unpack_from(view)[0]
    sizes = [_NUMBER.unpack_from(view, _NUMBER.size * (1 + place))[0] for place in range(count)]
    parts, start = [], _NUMBER.size * (1 + count)
    for size in sizes:
        start += -start % _ALIGNED
        parts.append(view[start : start + size])
        start += size
    return cloudpickle.loads(parts[0], buffers=parts[1:])
