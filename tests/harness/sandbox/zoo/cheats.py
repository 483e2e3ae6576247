"""Solvers that attack the referee's code, or use the network."""

import builtins
import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
import time

import numpy as np
from _reporting import reporting

from shardmark.harness import verify
from shardmark.harness.sandbox import worker
from shardmark.harness.verify import pipeline
from shardmark.solvers.registry import solver


@solver(track="pipeline")
def patches_the_verifier(instance, run):
    """Make every verifier within reach accept anything, then report a partition with a cycle."""
    yes = verify.Verdict(True, 0.0)
    verify.verify = pipeline.verify = lambda *_: yes
    verify.Verdict = lambda *_: yes
    builtins.max = builtins.abs = lambda *_: 0
    np.unique = np.add.at = lambda *_, **__: 0
    sys.modules["shardmark.harness.results.judgement"] = sys.modules["shardmark.harness.results.claims"] = None
    run.report([0, 1, 0, 1])


@solver(track="pipeline")
def patches_the_worker(instance, run):
    """Change the worker under its own feet."""
    worker.peak_bytes = lambda: -1
    type(run).send = lambda *_: None
    run.report([0] * instance.nodes)


@solver(track="pipeline")
def opens_a_socket(instance, run):
    """Speak to servers on this machine: by an address, by a name in the system, and by a file."""
    for family, address in (
        (socket.AF_INET, ("127.0.0.1", int(os.environ["ZOO_PORT"]))),
        (socket.AF_UNIX, "\0" + os.environ["ZOO_TOKEN"]),
        (socket.AF_UNIX, os.environ["ZOO_SERVICE"]),
    ):
        with socket.socket(family, socket.SOCK_STREAM) as link:
            link.settimeout(2.0)
            try:
                link.connect(address)
                link.sendall(b"the answer, please")
                link.recv(1)  # until the server has read it
                print("connected")
            except OSError as error:
                print(error)
    return [0] * instance.nodes


@solver(track="pipeline")
def opens_odd_sockets(instance, run):
    """Open sockets of every kind, and print the families and protocols that work."""
    opened = set()
    for family in range(1, 50):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            for protocol in (0, 1, 4, 6, 17, 132, 136):
                with contextlib.suppress(OSError), socket.socket(family, kind, protocol):
                    opened.add((family, protocol))
    print(sorted(opened))
    libc = ctypes.CDLL(None, use_errno=True)
    print(libc.syscall(425, 1, ctypes.create_string_buffer(120)), os.strerror(ctypes.get_errno()))  # io_uring_setup
    return [0] * instance.nodes


@solver(track="pipeline")
def serves(instance, run):
    """Open a server of its own, and speak to itself."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.sendall(b"hello")
        link, _ = server.accept()
        with link:
            print(link.recv(5))
    return [0] * instance.nodes


@reporting
def speaks_for_the_supervisor(instance, run):
    """Send an answer, as a supervisor would, through every socket that it finds."""
    answer = b'{"stop": "exit", "sizes": [], "arrivals": [], "spent": false}'
    for number in range(1024):
        try:
            link = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        with link:
            link.sendall(struct.pack(">I", len(answer)) + answer)


@reporting
def asks_for_alarms(instance, run):
    """Have itself killed by an alarm."""
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    time.sleep(60)
