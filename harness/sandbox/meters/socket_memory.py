"""Kernel memory in the socket buffers of one network namespace, read from its diagnostics (``sock_diag(7)``).

Data waiting in a socket is charged to no process. Unix, TCP, UDP and netlink sockets count. A process of the
namespace opens the diagnostic socket; any process that holds that socket may use it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator

from shardmark.harness.sandbox.backends.prctl import LIBC

NEWNET = 0x40000000  # flag of setns(2)
# Protocol, message types and flags of netlink(7).
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
TCP_DIAG = 18  # the older request for TCP sockets of both families, which visits the system's table of them once
REQUEST_DUMP = 0x301
ERROR = 2
DONE = 3
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ATTRIBUTE = struct.Struct("=HH")  # length, type
UNIX_REQUEST = struct.Struct("=BBHIIIII")  # family, protocol, padding, states, inode, attributes to send, cookie
UNIX_MESSAGE = struct.Struct("=BBBBI8x")  # family, type, state, padding, inode, cookie
SHOW = 0x4 | 0x10 | 0x20  # attributes to send for a Unix socket: peer, lengths of queues, memory
# Types of the attributes of a Unix socket.
PEER = 2
QUEUES = 4
UNIX_MEMORY = 5
INET_REQUEST = struct.Struct("=BBBxI48x")  # family, protocol, extensions, states, id
TCP_REQUEST = struct.Struct("=3xB48xI4x")  # extensions, states
INET_MESSAGE_BYTES = 72  # bytes of a message about a TCP or UDP socket before its attributes
INET_MEMORY = 7  # type of the attribute of a TCP or UDP socket that holds its memory
NETLINK_REQUEST = struct.Struct("=BBHIIQ")  # family, protocol, padding, inode, attributes to send, cookie
EVERY_PROTOCOL = 255  # of netlink sockets
SHOW_MEMORY = 1  # attributes to send for a netlink socket
NETLINK_MESSAGE_BYTES = 28  # bytes of a message about a netlink socket before its attributes
NETLINK_MEMORY = 0  # type of the attribute of a netlink socket that holds its memory
# Indices into a memory attribute, an array of 32-bit numbers of bytes.
RECEIVED = 0
SENT = 2
QUEUED = 5
ALL = 0xFFFFFFFF  # all states, or any inode or cookie
REPLY_BYTES = 1 << 16  # largest reply in bytes that is received at once


def open_diagnostics() -> socket.socket:
    """Open the diagnostic socket of this process's network namespace; OSError if there is none."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)


def open_diagnostics_of(pid: int) -> socket.socket | None:
    """Open the diagnostic socket of another process's network namespace; None if the system refuses."""
    opened: list[socket.socket] = []

    def enter() -> None:
        with contextlib.suppress(OSError):
            namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            try:
                if LIBC.setns(namespace, NEWNET) == 0:
                    opened.append(open_diagnostics())
            finally:
                os.close(namespace)

    thread = threading.Thread(target=enter)  # only this thread enters the namespace
    thread.start()
    thread.join()
    return opened[0] if opened else None


def socket_bytes(diagnostics: socket.socket) -> int:
    """Return the bytes of kernel memory in socket buffers of the namespace."""
    return _unix_bytes(diagnostics) + uncounted_bytes(diagnostics)


def uncounted_bytes(diagnostics: socket.socket) -> int:
    """Return the bytes in buffers of TCP, UDP and netlink sockets, which control groups of version 1 do not count."""
    netlink = NETLINK_REQUEST.pack(socket.AF_NETLINK, EVERY_PROTOCOL, 0, 0, SHOW_MEMORY, 0)
    total = _sum(diagnostics, netlink, NETLINK_MESSAGE_BYTES, NETLINK_MEMORY, RECEIVED)
    inet = INET_MESSAGE_BYTES, INET_MEMORY, RECEIVED, QUEUED
    for family in (socket.AF_INET, socket.AF_INET6):
        udp = INET_REQUEST.pack(family, socket.IPPROTO_UDP, 1 << INET_MEMORY - 1, ALL)
        total += _sum(diagnostics, udp, *inet)
    tcp = TCP_REQUEST.pack(1 << INET_MEMORY - 1, ALL)
    return total + _sum(diagnostics, tcp, *inet, kind=TCP_DIAG)


def _unix_bytes(diagnostics: socket.socket) -> int:
    """Return the memory of Unix sockets: the sender's until it is read, the unread bytes once the sender is closed."""
    request = UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, ALL, 0, SHOW, ALL, ALL)
    total, unread = 0, []
    inodes = set()
    for payload in _dump(diagnostics, request):
        *_, inode = UNIX_MESSAGE.unpack_from(payload)
        inodes.add(inode)
        attributes = dict(_attributes(payload, UNIX_MESSAGE.size))
        total += struct.unpack_from("=9I", attributes[UNIX_MEMORY])[SENT]
        if PEER in attributes:
            unread.append((struct.unpack("=I", attributes[PEER])[0], struct.unpack_from("=I", attributes[QUEUES])[0]))
    return total + sum(length for peer, length in unread if peer not in inodes)


def _sum(
    diagnostics: socket.socket,
    request: bytes,
    start: int,
    memory: int,
    *indices: int,
    kind: int = SOCK_DIAG_BY_FAMILY,
) -> int:
    """Return the sum of these entries of the attributes ``memory``, which start ``start`` bytes into each reply."""
    return sum(
        struct.unpack_from("=9I", value)[index]
        for payload in _dump(diagnostics, request, kind)
        for attribute, value in _attributes(payload, start)
        if attribute == memory
        for index in indices
    )


def _dump(diagnostics: socket.socket, request: bytes, kind: int = SOCK_DIAG_BY_FAMILY) -> Iterator[bytes]:
    """Yield the payload of each reply; none if the system has no diagnostics of that kind of socket."""
    header = HEADER.pack(HEADER.size + len(request), kind, REQUEST_DUMP, 0, 0)
    diagnostics.send(header + request)
    while True:
        data = memoryview(diagnostics.recv(REPLY_BYTES))
        while data:
            length, answer, *_ = HEADER.unpack_from(data)
            if answer in (ERROR, DONE):
                return
            yield bytes(data[HEADER.size : length])
            data = data[_aligned(length) :]


def _attributes(payload: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    while start < len(payload):
        length, kind = ATTRIBUTE.unpack_from(payload, start)
        yield kind, payload[start + ATTRIBUTE.size : start + length]
        start += _aligned(length)


def _aligned(length: int) -> int:
    return length + 3 & ~3
