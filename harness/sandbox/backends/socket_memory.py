"""Kernel memory in the socket buffers of one network namespace, as its diagnostics tell it (``sock_diag(7)``).

Data that waits in a socket belongs to no process, so no other record of a process has it. Counted are Unix, TCP, UDP
and netlink sockets. A process of the namespace opens the diagnostic socket; whoever holds that socket may ask.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator

from harness.sandbox.backends.prctl import LIBC

NETLINK_SOCK_DIAG = 4
NEWNET = 0x40000000
SOCK_DIAG_BY_FAMILY, REQUEST_DUMP = 20, 0x301
ERROR, DONE = 2, 3
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ATTRIBUTE = struct.Struct("=HH")  # length, type
UNIX_REQUEST = struct.Struct("=BBHIIIII")  # family, protocol, pad, states, inode, what to show, cookie
UNIX_MESSAGE = struct.Struct("=BBBBI8x")  # family, type, state, pad, inode, cookie
SHOW = 0x4 | 0x10 | 0x20  # peer, lengths of queues, memory
PEER, QUEUES, UNIX_MEMORY = 2, 4, 5  # attributes of a Unix socket
INET_REQUEST = struct.Struct("=BBBxI48x")  # family, protocol, extensions, states, id
INET_MESSAGE_BYTES, INET_MEMORY = 72, 7  # and the attribute of a TCP or UDP socket
NETLINK_REQUEST = struct.Struct("=BBHIIQ")  # family, protocol, pad, inode, what to show, cookie
EVERY_PROTOCOL, SHOW_MEMORY = 255, 1
NETLINK_MESSAGE_BYTES, NETLINK_MEMORY = 28, 0
RECEIVED, SENT, QUEUED = 0, 2, 5  # places in the record of memory: numbers of 32 bits, bytes
ALL = 0xFFFFFFFF
ANSWER_BYTES = 1 << 16


def open_diagnostics() -> socket.socket:
    """Open the diagnostic socket of the network namespace that the calling process is in; OSError if there is none."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)


def open_diagnostics_of(pid: int) -> socket.socket | None:
    """Open that of the network namespace that another process is in; None if the system does not let us."""
    opened: list[socket.socket] = []

    def enter() -> None:
        with contextlib.suppress(OSError):
            namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            try:
                if LIBC.setns(namespace, NEWNET) == 0:
                    opened.append(open_diagnostics())
            finally:
                os.close(namespace)

    thread = threading.Thread(target=enter)  # which alone enters it
    thread.start()
    thread.join()
    return opened[0] if opened else None


def held(diagnostics: socket.socket) -> int:
    """Bytes of kernel memory in socket buffers of the namespace."""
    return _held_by_unix(diagnostics) + held_by_uncounted(diagnostics)


def held_by_uncounted(diagnostics: socket.socket) -> int:
    """Bytes in those of TCP, UDP and netlink alone, which control groups of version 1 do not count."""
    inet = ((f, p) for f in (socket.AF_INET, socket.AF_INET6) for p in (socket.IPPROTO_TCP, socket.IPPROTO_UDP))
    return _held_by_netlink(diagnostics) + sum(_held_by_inet(diagnostics, *which) for which in inet)


def _held_by_unix(diagnostics: socket.socket) -> int:
    """Memory is charged to the sender until it is read; once the sender is closed, the unread bytes count."""
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


def _held_by_netlink(diagnostics: socket.socket) -> int:
    request = NETLINK_REQUEST.pack(socket.AF_NETLINK, EVERY_PROTOCOL, 0, 0, SHOW_MEMORY, 0)
    return sum(
        struct.unpack_from("=9I", value)[RECEIVED]
        for payload in _dump(diagnostics, request)
        for kind, value in _attributes(payload, NETLINK_MESSAGE_BYTES)
        if kind == NETLINK_MEMORY
    )


def _held_by_inet(diagnostics: socket.socket, family: int, protocol: int) -> int:
    total = 0
    for payload in _dump(diagnostics, INET_REQUEST.pack(family, protocol, 1 << INET_MEMORY - 1, ALL)):
        for kind, value in _attributes(payload, INET_MESSAGE_BYTES):
            if kind == INET_MEMORY:
                memory = struct.unpack_from("=9I", value)
                total += memory[RECEIVED] + memory[QUEUED]
    return total


def _dump(diagnostics: socket.socket, request: bytes) -> Iterator[bytes]:
    """Yield the payload of each answer; none if the system has no diagnostics of that kind of socket."""
    header = HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 0, 0)
    diagnostics.send(header + request)
    while True:
        data = memoryview(diagnostics.recv(ANSWER_BYTES))
        while data:
            length, kind, *_ = HEADER.unpack_from(data)
            if kind in (ERROR, DONE):
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
