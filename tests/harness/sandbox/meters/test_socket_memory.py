"""Memory in socket buffers, as the diagnostics of a network namespace report it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from shardmark.harness.sandbox.meters.socket_memory import open_diagnostics, socket_bytes

MIB = 1 << 20


@pytest.fixture
def of_this_network() -> Iterator[socket.socket]:
    with open_diagnostics() as diagnostics:
        yield diagnostics


def fill(end: socket.socket) -> int:
    """Send until the socket takes no more; return the bytes that it took."""
    end.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += end.send(b"x" * (64 << 10))
    return sent


def pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    return [socket.socketpair() for _ in range(count)]


def connection(host: str) -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection over the loopback device; skips if the system has no such address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"{host} cannot be used: {error}")
    with server:
        ours = socket.create_connection(server.getsockname()[:2])
        return ours, server.accept()[0]


def test_unread_bytes_count(of_this_network):
    ends = pairs(50)
    before = socket_bytes(of_this_network)
    sent = sum(fill(ours) for ours, _ in ends)
    assert sent > 4 * MIB
    assert before + sent <= socket_bytes(of_this_network) <= before + 4 * sent
    for ours, _ in ends:
        ours.close()
    assert socket_bytes(of_this_network) >= before + sent * 9 // 10  # the senders are closed, their bytes remain
    for _, theirs in ends:
        theirs.close()
    assert socket_bytes(of_this_network) < before + sent // 10


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_in_transit_through_tcp_count(of_this_network, host):
    ours, theirs = connection(host)
    before = socket_bytes(of_this_network)
    sent = fill(ours)
    assert socket_bytes(of_this_network) >= before + sent // 2
    for end in (ours, theirs):
        end.close()


def test_unread_netlink_replies_count(of_this_network):
    """The only kind of netlink socket that a run may have; control groups do not count its buffers."""
    before = socket_bytes(of_this_network)
    ends = [socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) for _ in range(20)]
    ask = struct.pack("=IHHIIBxHiII", 32, 18, 1, 0, 0, 0, 0, 1, 0, 0)  # asks for the first network device
    for end in ends:
        for _ in range(100):
            end.send(ask)
    assert socket_bytes(of_this_network) >= before + 2 * MIB
    for end in ends:
        end.close()
    assert socket_bytes(of_this_network) < before + MIB


def test_many_sockets_take_several_answers(of_this_network):
    before = socket_bytes(of_this_network)
    ends = pairs(1500)
    for ours, _ in ends:
        ours.send(b"x")
    assert socket_bytes(of_this_network) >= before + len(ends)
    for end in (end for pair in ends for end in pair):
        os.close(end.detach())
