"""Opens hostile TCP connections to one port of this machine: many at once, limited in number and time."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.chaos.raw_bytes import Hostile

_ANSWER_SECONDS = 5.0
_FILES_OF_THE_TEST = 200
_RESET = struct.pack("ii", 1, 0)


@dataclass(kw_only=True)
class Attack:
    """What became of the connections."""

    opened: Counter[str] = field(default_factory=Counter)
    """Kind → connections to which the other side has answered: by bytes, or by closing them."""
    unanswered: int = 0
    """Connections that the kernel did not make, or that nobody accepted in time."""
    most_at_once: int = 0
    seconds: float = 0.0


class Attacker:
    """Attacks a port until ``connections`` were answered, or for ``seconds``; in a thread of its own."""

    def __init__(self, port: int, script: Iterator[Hostile], *, connections: int, seconds: float, at_once: int) -> None:
        self._port, self._script, self._wanted = port, script, connections
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._at_once = max(1, min(at_once, files - _FILES_OF_THE_TEST))
        self._until = time.monotonic() + seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.done = Attack()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._attack()), name="attacker")

    def start(self) -> None:
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def end(self) -> None:
        """Open no further connection, and wait until all are closed."""
        self._until = 0.0
        with contextlib.suppress(RuntimeError):  # it is over already
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._close_all)
        self._thread.join()

    def _close_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _attack(self) -> None:
        began, free = time.monotonic(), asyncio.Semaphore(self._at_once)
        self._loop = asyncio.get_running_loop()
        for hostile in self._script:
            if self.done.opened.total() >= self._wanted or time.monotonic() >= self._until:
                break
            await free.acquire()
            task = asyncio.create_task(self._connect(hostile))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda done: free.release())
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.done.seconds = time.monotonic() - began

    async def _connect(self, hostile: Hostile) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        self.done.most_at_once = max(self.done.most_at_once, len(self._tasks))
        try:
            if not hostile.reads:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            async with asyncio.timeout(_ANSWER_SECONDS):
                await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port))
                answered = await self._talk(connection, hostile)
            if answered:
                self.done.opened[hostile.kind] += 1
                await self._hold(connection, hostile)
            else:
                self.done.unanswered += 1
        except (OSError, TimeoutError):
            self.done.unanswered += 1
        finally:
            if hostile.reset:
                with contextlib.suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.close()

    async def _talk(self, connection: socket.socket, hostile: Hostile) -> bool:
        """Send everything, and return whether the other side has accepted the connection."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(connection, hostile.data)
            answer = await loop.sock_recv(connection, 1000)  # it answers by a greeting, or closes the connection
            while hostile.again and answer and len(answer) <= hostile.after:
                more = await loop.sock_recv(connection, 1000)
                answer = answer + more if more else b""
            for _ in range(hostile.repeat if hostile.again else 0):
                await loop.sock_sendall(connection, hostile.again)
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was accepted, and closed
        return True

    async def _hold(self, connection: socket.socket, hostile: Hostile) -> None:
        """Keep the connection open until its time is over, or the other side closes it."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(hostile.hold):
                if not hostile.reads:
                    await asyncio.sleep(hostile.hold)
                while await loop.sock_recv(connection, 4096):
                    pass
