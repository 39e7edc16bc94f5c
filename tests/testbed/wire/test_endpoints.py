"""The endpoint of the aggregator, and when it must be encrypted."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.common.errors import ProfileError
from testbed.wire import endpoints
from testbed.wire.endpoints import Transport

HERE = ["127.0.0.1", "127.8.8.8", "localhost", "::1"]
BEYOND = ["0.0.0.0", "*", "::", "192.168.1.5", "10.0.0.1", "fe80::1", "2001:db8::1"]


def test_a_unix_socket_is_in_the_private_folder() -> None:
    assert endpoints.endpoint(Transport(), Path("/short")) == "ipc:///short/hub"


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("127.0.0.1", 0, "tcp://127.0.0.1:*"),
        ("localhost", 7, "tcp://127.0.0.1:7"),
        ("*", 7, "tcp://0.0.0.0:7"),
        ("::1", 7, "tcp://[::1]:7"),
    ],
)
def test_a_tcp_endpoint_has_address_and_port(host: str, port: int, expected: str) -> None:
    assert endpoints.endpoint(Transport(kind="tcp", host=host, port=port), Path("/short")) == expected


@pytest.mark.parametrize(
    ("bound", "reached"),
    [
        ("tcp://0.0.0.0:7", "tcp://127.0.0.1:7"),
        ("tcp://[::]:7", "tcp://[::1]:7"),
        ("tcp://10.0.0.1:7", "tcp://10.0.0.1:7"),
        ("ipc:///short/hub", "ipc:///short/hub"),
    ],
)
def test_local_processes_reach_an_endpoint_that_is_bound_to_all_addresses(bound: str, reached: str) -> None:
    assert endpoints.local_address(bound) == reached


@pytest.mark.parametrize("host", [*HERE, *BEYOND])
def test_tcp_is_encrypted_by_default_loopback_included(host: str) -> None:
    transport = Transport(kind="tcp", host=host)
    endpoints.check(transport, "mine.toml")
    assert endpoints.is_encrypted(transport)
    assert endpoints.is_encrypted(Transport(kind="tcp", host=host, encrypt=True))
    assert endpoints.warnings(transport) == []


@pytest.mark.parametrize("host", HERE)
def test_plain_traffic_within_this_machine_is_a_choice_with_a_warning(host: str) -> None:
    transport = Transport(kind="tcp", host=host, encrypt=False)
    endpoints.check(transport, "mine.toml")
    assert not endpoints.is_encrypted(transport)
    [warning] = endpoints.warnings(transport)
    assert warning.startswith("transport.encrypt is false: ")
    assert warning.endswith("; leave it out to encrypt")
    assert not endpoints.is_encrypted(Transport())
    assert endpoints.warnings(Transport()) == []


@pytest.mark.parametrize("host", BEYOND)
def test_plain_traffic_that_leaves_this_machine_is_refused_with_a_remedy(host: str) -> None:
    with pytest.raises(ProfileError) as refusal:
        endpoints.check(Transport(kind="tcp", host=host, encrypt=False), "mine.toml")
    assert str(refusal.value) == (
        f"mine.toml: transport.encrypt is false, and other machines can reach transport.host = {host!r}; leave it out,"
        " or set host = '127.0.0.1'"
    )


@pytest.mark.parametrize("host", ["", "eth0", "example.org", "127.0.0.1:80", "127.1", "tcp://127.0.0.1"])
def test_a_host_that_is_not_an_address_is_refused(host: str) -> None:
    with pytest.raises(
        ProfileError, match=r"mine.toml: transport\.host is .*; it must be an IP address of this machine"
    ):
        endpoints.check(Transport(kind="tcp", host=host), "mine.toml")


def test_an_address_is_refused_for_unix_sockets() -> None:
    with pytest.raises(ProfileError, match=r"transport\.host is '10.0.0.1', and Unix sockets have no address; set"):
        endpoints.check(Transport(host="10.0.0.1"), "mine.toml")
