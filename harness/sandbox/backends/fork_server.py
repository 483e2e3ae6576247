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

from harness.sandbox.backends import namespaces, prctl
from harness.sandbox.backends.cpu_clock import TreeClock
from harness.sandbox.backends.launch import Launch
from harness.sandbox.contract import BackendError

LENGTH = struct.Struct("=Q")
ANSWER = struct.Struct("=i256s")  # process id, 0 if there is none for the reason that follows
FILES = 4  # that a run begins with: standard output and errors, a pipe, the link of its process 1


class ForkServer:
    """The supervisor's hold on it; ``fork`` forks a child that calls a function and dies with this process."""

    def __init__(self, fork: Callable[[Callable[[], None]], int]) -> None:
        self.link, theirs = socket.socketpair()
        with theirs:
            fork(lambda: serve(theirs, self.link))

    def start(self, room: namespaces.Sandbox, launch: Launch) -> tuple[namespaces.IsolatedProcess, TreeClock]:
        """Start an isolated run; return it and the clock of its CPU time. BackendError if the system refuses."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = pickle.dumps((room, launch))
        with theirs:
            socket.send_fds(self.link, [LENGTH.pack(len(order))], [*launch.ends, theirs.fileno()])
        self.link.sendall(order)
        answer, files, _, _ = socket.recv_fds(self.link, ANSWER.size, 2, socket.MSG_WAITALL)
        if len(answer) < ANSWER.size:
            ours.close()
            raise BackendError("isolation: the process that starts runs has ended")
        init, reason = ANSWER.unpack(answer)
        if not init:
            ours.close()
            raise BackendError(reason.rstrip(b"\0").decode())
        return namespaces.IsolatedProcess(init, ours), TreeClock(files)


def serve(link: socket.socket, other_end: socket.socket) -> NoReturn:
    """Start runs until the supervisor has gone."""
    other_end.close()
    prctl.set_dumpable(False)
    gc.collect()
    gc.freeze()  # what stands now is never looked at again, neither here nor in a fork
    while True:
        head, files, _, _ = socket.recv_fds(link, LENGTH.size, FILES, socket.MSG_WAITALL)
        if not head:
            os._exit(0)
        order = link.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL)
        room, launch = pickle.loads(order)
        clock = TreeClock.begin()
        try:
            init, reason = _fork(room, replace(launch, ends=tuple(files[:-1])), files[-1]), b""
        except BackendError as error:
            init, reason = 0, str(error).encode()
        socket.send_fds(link, [ANSWER.pack(init, reason)], clock.files)
        clock.close()
        for file in files:
            os.close(file)


def _fork(room: namespaces.Sandbox, launch: Launch, number: int) -> int:
    """Fork process 1 of a run, whose link has a number."""
    link = socket.socket(fileno=number)
    try:
        return namespaces.spawn(room, link, launch.become, of_parent=True)
    finally:
        link.detach()
