"""Sends and reads whole messages as frames of a ZeroMQ socket, without copying large vectors."""

from __future__ import annotations

from typing import Any

import zmq

from testbed.wire.codec import Buffer

# plain integers: combining the enum members costs more than the call
_MORE, NO_WAIT, WAIT = int(zmq.NOBLOCK | zmq.SNDMORE), int(zmq.NOBLOCK), 0
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
_WORTH_SHARING = 1 << 19
"""Bytes. Smaller frames are copied, which is faster than waking the thread in which pyzmq frees shared ones."""
_MOST_FRAMES = 4
"""Frames of a message that are kept: routing id, header, vector, and one more that shows that it is invalid."""
_SKIPPED_AT_ONCE = 1000


class FrameSender:
    """Sends frames. The last vector is kept as a ZeroMQ frame, so a model for the whole fleet is converted once.

    Vectors that were sent must not change any more.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        # the method that zmq.Socket.send extends for two kinds of socket that are not used here: half the time
        self._send = super(zmq.Socket, socket).send
        self._vector: object = None
        self._frame = zmq.Frame()

    def send(self, *frames: Buffer) -> None:
        *others, last = frames
        for frame in others:
            self._send(frame, _MORE)
        if type(last) is memoryview:
            if last.obj is not self._vector:
                self._vector, self._frame = last.obj, zmq.Frame(last, copy=len(last) < _WORTH_SHARING)
            self._send(self._frame, NO_WAIT)
        else:
            self._send(last, NO_WAIT)


class FrameReader:
    """Reads whole messages without copying.

    ZeroMQ does not limit the number of frames of a message. Surplus frames are dropped, at most 1000 in one call, so
    that the caller can do other work in between.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._unfinished = False

    @property
    def has_message(self) -> bool:
        """Whether ``read`` finds a frame without waiting."""
        events: Any = self._socket.getsockopt(_EVENTS)
        return bool(events & _READABLE)

    def read(self, flags: int) -> list[Any]:
        """The frames of one message. Raises zmq.Again if there is none (in time)."""
        if self._unfinished:
            self._skip()
        receive = self._socket.recv
        frame: Any = receive(flags, copy=False)
        frames = [frame]
        while frame.more and len(frames) < _MOST_FRAMES:
            frame = receive(flags, copy=False)
            frames.append(frame)
        self._unfinished = frame.more
        return frames

    def _skip(self) -> None:
        for _ in range(_SKIPPED_AT_ONCE):
            frame: Any = self._socket.recv(NO_WAIT, copy=False)
            if not frame.more:
                self._unfinished = False
                return
        raise zmq.Again
