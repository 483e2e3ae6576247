"""Filters of system calls: the calls they refuse, and that all others work."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from shardmark.harness.sandbox.backends import seccomp
from shardmark.harness.sandbox.backends.prctl import PROCESSOR

pytestmark = pytest.mark.skipif(platform.machine() != PROCESSOR, reason=f"system calls are those of {PROCESSOR}")


def filtered(code: str) -> str:
    """Return the output of a process that first sets the filter."""
    filter_set = "from shardmark.harness.sandbox.backends import seccomp\nseccomp.hide_clone3()"
    program = f"import ctypes, errno, os\n{filter_set}\n{code}"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_there_is_no_clone3():
    call = "ctypes.CDLL(None, use_errno=True).syscall(435, ctypes.create_string_buffer(88), ctypes.c_size_t(88))"
    assert filtered(f"print({call}, errno.errorcode[ctypes.get_errno()])") == "-1 ENOSYS\n"
    assert filtered(f"print(os.system('exit 3') >> 8)\nif os.fork() == 0: print({call})\nelse: os.wait()") == "3\n-1\n"


def test_processes_and_threads_start_as_usual():
    code = """
import multiprocessing, subprocess, sys, threading
import numpy as np
threads = [threading.Thread(target=sys.stdout.write, args=("thread\\n",)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(subprocess.run(["echo", "program"], capture_output=True, text=True).stdout.strip())
print((np.ones((500, 500)) @ np.ones((500, 500)))[0, 0])
with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(abs, [-1, -2]))
"""
    assert filtered(code) == "thread\nthread\nprogram\n500.0\n[1, 2]\n"


def test_a_refused_filter_is_an_error(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "vax")
    for hide in (seccomp.hide_clone3, lambda: seccomp.hide_kernel_memory(memfds=True)):
        with pytest.raises(OSError, match="seccomp: Function not implemented"):
            hide()
    assert not seccomp.ignore_affinity_calls()


def test_sockets_are_of_networks_and_memory_is_of_processes():
    code = """
import socket
seccomp.hide_kernel_memory(memfds=False)
for call in (
    lambda: socket.socket(socket.AF_VSOCK), lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET),
    lambda: socket.socketpair(socket.AF_TIPC), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136),
    lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4), lambda: os.memfd_create("x"),
):
    try: print(call())
    except OSError as error: print(errno.errorcode[error.errno], end=" ")
print(ctypes.CDLL(None, use_errno=True).vmsplice(0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
for pair in (socket.socketpair(), socket.socketpair(type=socket.SOCK_DGRAM)):
    pair[0].send(b"x"); print(pair[1].recv(1), end=" ")
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as link:
    print(link.proto == socket.IPPROTO_TCP or link.proto)
"""
    refused = "EAFNOSUPPORT EAFNOSUPPORT EAFNOSUPPORT EPROTONOSUPPORT EPROTONOSUPPORT ENOSYS -1 ENOSYS"
    assert filtered(code).split("\n")[:2] == [refused, "b'x' b'x' True"]


def test_files_in_memory_can_be_had():
    assert filtered("seccomp.hide_kernel_memory(memfds=True)\nprint(os.memfd_create('x') > 2)") == "True\n"
