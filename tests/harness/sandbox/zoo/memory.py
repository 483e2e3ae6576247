"""Solvers that exceed their memory, each in a way that some measurements miss."""

import contextlib
import ctypes
import mmap
import os
import resource
import socket
import struct
import subprocess
import sys
import time

import numpy as np
from _reporting import reporting

from shardmark.solvers.registry import solver

MIB = 1 << 20
MAP_NORESERVE = 0x4000  # of Linux


def fill(mib):
    """Use memory in one step, and keep it."""
    hoard = bytearray(b"x") * (mib * MIB)
    time.sleep(60)
    return hoard


@reporting
def allocates(instance, run):
    """Report, then fill memory little by little."""
    hoard = []
    while True:
        hoard.append(np.ones(2_000_000))
        time.sleep(0.002)


@reporting
def allocates_at_once(instance, run):
    """Take 1,200 MiB in one step."""
    fill(1200)


@reporting
def allocates_and_leaves(instance, run):
    """Use much memory for a moment, then leave before it is measured."""
    hoard = bytearray(b"x") * (400 * MIB)
    os._exit(len(hoard) * 0)


@solver(track="pipeline")
def spike(instance, run):
    """Use much memory for a moment too short to be polled."""
    hoard = bytearray(b"x") * (400 * MIB)
    del hoard
    return [0] * instance.nodes


@solver(track="pipeline")
def child_allocates(instance, run):
    """Fill memory in a child process."""
    code = "import time\nx = bytearray(b'x') * (600 << 20)\ntime.sleep(60)"
    subprocess.run([sys.executable, "-c", code], check=False)


@reporting
def children_allocate(instance, run):
    """Fill memory in eight children, each with less than it may use."""
    for _ in range(8):
        if os.fork() == 0:
            fill(75)
    time.sleep(60)


@reporting
def orphan_allocates(instance, run):
    """Fill memory in a grandchild whose parent has gone, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            fill(600)
        os._exit(0)
    os.wait()
    time.sleep(60)


@reporting
def shares_memory(instance, run):
    """Fill shared memory: it counts once, which is too much."""
    hoard = mmap.mmap(-1, 600 * MIB)
    for start in range(0, 600 * MIB, MIB):
        hoard[start : start + MIB] = b"x" * MIB
    time.sleep(60)


@reporting
def shares_what_it_may(instance, run):
    """Let eight children read 100 MiB of shared memory: it counts once, which is within the limit."""
    hoard = mmap.mmap(-1, 100 * MIB)
    for start in range(0, 100 * MIB, MIB):
        hoard[start : start + MIB] = b"x" * MIB
    children = []
    for _ in range(8):
        children.append(os.fork())
        if children[-1] == 0:
            os._exit(sum(hoard[i] for i in range(0, 100 * MIB, 4096)) == 0 or bool(time.sleep(0.3)))
    print([os.waitpid(child, 0)[1] for child in children])


@solver(track="pipeline")
def reserves_much(instance, run):
    """Reserve 64 GiB of addresses, as threaded programs do, and use none of them."""
    hoard = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | MAP_NORESERVE)
    run.report([0] * instance.nodes)
    hoard.close()


@reporting
def memory_files(instance, run):
    """Fill many memfd files, each of moderate size and mapped by no process."""
    for _ in range(20):
        try:
            file = os.memfd_create("hoard")
        except OSError as error:
            return print(error)
        for _ in range(30):
            os.write(file, b"x" * MIB)
    return time.sleep(60)


def fill_sockets(kept):
    """Store 400 MiB in Unix sockets; ``kept`` selects the ends that stay open."""
    hoard = []
    for _ in range(4):
        if os.fork() == 0:
            for _ in range(100 * MIB // (128 << 10)):
                pair = socket.socketpair()
                pair[0].setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        pair[0].send(b"x" * (64 << 10))
                hoard += pair[kept]
                for end in pair:
                    if end not in hoard:
                        end.close()
            time.sleep(60)
    time.sleep(60)


@solver(track="pipeline", variants={"fills-sockets": {"kept": 2}, "fills-sockets-that-nobody-wrote": {"kept": 1}})
def stores_in_sockets(instance, run, kept):
    """Store data in socket buffers, which no process has in its memory; ``kept`` sockets of each pair stay open."""
    run.report([0] * instance.nodes)
    fill_sockets(slice(2 - kept, 2))


@reporting
def fills_tcp(instance, run):
    """Store 400 MiB in TCP connections to itself."""
    hoard = []
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        sent = 0
        while sent < 400 * MIB:
            hoard += [socket.create_connection(server.getsockname()), server.accept()[0]]
            hoard[-2].setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sent += hoard[-2].send(b"x" * (64 << 10))
        time.sleep(60)


@reporting
def fills_netlink(instance, run):
    """Ask the kernel about its network from many sockets, and read none of the answers."""
    ask = struct.pack("=IHHIIBxHiII", 32, 18, 1, 0, 0, 0, 0, 1, 0, 0)
    for _ in range(3):
        if os.fork() == 0:
            break
    kept = []
    for _ in range(900):
        kept.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE))
        for _ in range(100):
            kept[-1].send(ask)
    time.sleep(60)


@reporting
def fills_udp(instance, run):
    """Store 400 MiB in UDP sockets that nobody reads."""
    sender, hoard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), []
    for _ in range(400 * MIB // (6 * 32_000)):
        hoard.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        hoard[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MIB)
        hoard[-1].bind(("127.0.0.1", 0))
        for _ in range(6):
            sender.sendto(b"x" * 32_000, hoard[-1].getsockname())
    time.sleep(60)


@reporting
def sends_files_to_itself(instance, run):
    """Fill memfd files that no process has open: they are in transit through a socket."""
    ends = socket.socketpair()
    for _ in range(10):
        try:
            file = os.memfd_create("hoard")
        except OSError as error:
            return print(error)
        for _ in range(40):
            os.write(file, b"x" * MIB)
        socket.send_fds(ends[0], [b"1"], [file])
        os.close(file)
    return time.sleep(60)


@reporting
def leaves_pages_in_a_pipe(instance, run):
    """Put one byte of a huge page into a pipe and unmap the page, again and again."""
    libc = ctypes.CDLL(None, use_errno=True)
    ends = os.pipe()
    for number in range(200):
        hoard = mmap.mmap(-1, 4 * MIB)
        hoard.madvise(mmap.MADV_HUGEPAGE)
        hoard[:] = b"x" * (4 * MIB)
        part = (ctypes.c_char * 1).from_buffer(hoard, 2 * MIB)
        ends = ends if number % 16 else os.pipe()
        if libc.vmsplice(ends[1], (ctypes.c_size_t * 2)(ctypes.addressof(part), 1), ctypes.c_size_t(1), 2) < 0:
            return print(os.strerror(ctypes.get_errno()))
        del part
        hoard.close()
    return time.sleep(60)


@reporting
def runs_out(instance, run):
    """Limit its own memory, and exceed that."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    fill(2048)


@solver(track="pipeline")
def hides_its_peak(instance, run):
    """Use much memory for a moment, then reset the system's count of it."""
    hoard = bytearray(b"x") * (400 * MIB)
    del hoard
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE: nobody else may look
    return [0] * instance.nodes
