"""The process that forks isolated runs: it never receives what a run reports.

A fork of the supervisor would find reported solutions of other runs in its memory, even freed ones. The fork server
is forked from the supervisor once, before any run, and receives orders only. Its forks are children of the supervisor.
"""

from __future__ import annotations

import gc
import os
import pickle
import socket
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from shardmark.harness.sandbox.backends import namespaces, prctl
from shardmark.harness.sandbox.backends.launch import Launch
from shardmark.harness.sandbox.contract import BackendError
from shardmark.harness.sandbox.meters.cpu_clock import TreeClock

LENGTH = struct.Struct("=Q")  # length of a request in bytes
REPLY = struct.Struct("=i256s")  # reply: process id, or 0 and the reason why there is none
FILES = 4  # file descriptors of a request: the three of `Launch.ends`, and the link of process 1


class ForkServer:
    """The supervisor's handle on its fork server; ``fork`` forks a child that calls a function and dies with it."""

    def __init__(self, fork: Callable[[Callable[[], None]], int]) -> None:
        self.link, theirs = socket.socketpair()
        with theirs:
            fork(lambda: serve(theirs, self.link))

    def start(self, sandbox: namespaces.Sandbox, launch: Launch) -> tuple[namespaces.IsolatedProcess, TreeClock]:
        """Start an isolated run; return it and the clock of its CPU time. BackendError if the system refuses."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = pickle.dumps((sandbox, launch))
        with theirs:
            socket.send_fds(self.link, [LENGTH.pack(len(request))], [*launch.ends, theirs.fileno()])
        self.link.sendall(request)
        reply, files, _, _ = socket.recv_fds(self.link, REPLY.size, 2, socket.MSG_WAITALL)
        if len(reply) == REPLY.size:
            init, reason = REPLY.unpack(reply)
        else:
            init, reason = 0, b"isolation: the process that starts runs has ended"
        if not init:
            ours.close()
            raise BackendError(reason.rstrip(b"\0").decode())
        return namespaces.IsolatedProcess(init, ours), TreeClock(files)


def serve(link: socket.socket, other_end: socket.socket) -> NoReturn:
    """Start runs until the supervisor has gone."""
    other_end.close()
    prctl.set_dumpable(False)
    gc.collect()
    gc.freeze()  # keeps the collector from writing to pages that forks share with this process
    while True:
        head, files, _, _ = socket.recv_fds(link, LENGTH.size, FILES, socket.MSG_WAITALL)
        if not head:
            os._exit(0)
        request = link.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL)
        sandbox, launch = pickle.loads(request)
        clock = TreeClock.begin()
        run_link = socket.socket(fileno=files.pop())
        try:
            launch = replace(launch, ends=tuple(files))
            init, reason = namespaces.fork_init(sandbox, run_link, launch.run, sibling=True), b""
        except BackendError as error:
            init, reason = 0, str(error).encode()
        socket.send_fds(link, [REPLY.pack(init, reason)], clock.files)
        clock.close()
        run_link.close()
        for file in files:
            os.close(file)
