"""The ends of connections as typed messages go through them: over sockets here, or in memory (``testbed.twin``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from testbed.wire.codec import Buffer, decode_or_log, encode, largest_frame
from testbed.wire.messages import Message
from testbed.wire.sockets import Hub, Peer

FromPeer: TypeAlias = tuple[str, Message | None]
"""A message and the peer that sent it. None: what it sent was no message."""


class Sender(Protocol):
    """Where a device sends its messages."""

    def send(self, message: Message, timeout: float = 0.0) -> None:
        """Send a message. Raises PeerUnreachable if the transport refuses it for ``timeout`` host seconds."""
        ...


class MemberEnd(Sender, Protocol):
    """The end of a member of a cluster; the head has the other one."""

    def receive(self) -> Sequence[Message]:
        """Return the messages that have arrived."""
        ...

    def close(self) -> None: ...


class HeadEnd(Protocol):
    """The end of a cluster head; each member has another one."""

    def send(self, device: str, message: Message) -> None:
        """Send a message to a member. Raises PeerUnreachable."""
        ...

    def receive(self) -> FromPeer | None:
        """Return the next message that has arrived; None if there is none."""
        ...

    def close(self) -> None: ...


class ClusterLinks(Protocol):
    """Opens the connections of clusters; the ticket range of a head names its end."""

    def open(self, ticket_range: int) -> HeadEnd: ...
    def connect(self, ticket_range: int, device: str) -> MemberEnd: ...


class FrameSocket(Protocol):
    """A socket that sends frames."""

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None: ...


class SocketSender:
    """Sends messages over a socket."""

    def __init__(self, peer: FrameSocket) -> None:
        self._peer = peer

    def send(self, message: Message, timeout: float = 0.0) -> None:
        self._peer.send(encode(message), timeout)


class _SocketMemberEnd(SocketSender):
    """The end of a member that is a process."""

    def __init__(self, links: SocketClusterLinks, peer: Peer, size: int) -> None:
        super().__init__(peer)
        self._links, self._end, self._size = links, peer, size

    def receive(self) -> Sequence[Message]:
        found = []
        while (frames := self._end.receive(0)) is not None:
            message = decode_or_log(frames, self._size)
            if message is not None:
                found.append(message)
        return found

    def close(self) -> None:
        self._links.close(self._end)


class _SocketHeadEnd:
    """The end of a head that is a process."""

    def __init__(self, links: SocketClusterLinks, hub: Hub, size: int) -> None:
        self._links, self._end, self._size = links, hub, size

    def send(self, device: str, message: Message) -> None:
        self._end.send(device, encode(message))

    def receive(self) -> FromPeer | None:
        incoming = self._end.receive(0)
        return None if incoming is None else (incoming[0], decode_or_log(incoming[1], self._size))

    def close(self) -> None:
        self._links.close(self._end)


class SocketClusterLinks:
    """Connections over sockets in ``folder``, which the processes of a run share. ``size``: numbers in a model."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._size = folder, size
        self.sockets: list[Hub | Peer] = []
        """Those that are open: messages of the cluster arrive on them."""

    def open(self, ticket_range: int) -> HeadEnd:
        hub = Hub(self._endpoint(ticket_range), max_bytes=largest_frame(self._size))
        self.sockets.append(hub)
        return _SocketHeadEnd(self, hub, self._size)

    def connect(self, ticket_range: int, device: str) -> MemberEnd:
        peer = Peer(self._endpoint(ticket_range), device, max_bytes=largest_frame(self._size))
        self.sockets.append(peer)
        return _SocketMemberEnd(self, peer, self._size)

    def close(self, socket: Hub | Peer) -> None:
        self.sockets.remove(socket)
        socket.close(linger=0)

    def _endpoint(self, ticket_range: int) -> str:
        return f"ipc://{self._folder}/head-{ticket_range}"
