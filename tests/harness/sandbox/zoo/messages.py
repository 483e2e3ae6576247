"""Solvers that break the protocol: they send wrong messages, too many, or too late."""

import io
import json
import os
import struct
import subprocess
import sys
import zlib

from _reporting import reporting

from shardmark.solvers.registry import solver

MIB = 1 << 20


def frame(payload, magic=b"SM", length=None, checksum=None):
    """Return the bytes of one message, with a possibly wrong header."""
    length = len(payload) if length is None else length
    checksum = zlib.crc32(payload) if checksum is None else checksum
    return struct.pack(">2sII", magic, length, checksum) + payload


def send(run, data):
    """Write bytes to the referee's pipe, all of them."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(run._channel, rest) :]


def solution(blocks=(0, 0, 0, 0)):
    """Return the payload of a solution."""
    return json.dumps(["solution", list(blocks)]).encode()


ODD = (b"", b"null", b"[]", b"{}", b'["solution"]', b'["oops",1]', b'[["solution"],1]', b"\xff\xfe", b'"')
#: Bytes written to the referee's pipe after a report, by the name of the solver.
SENT = {
    "wrong-magic": frame(solution([0, 0, 1, 1]), magic=b"MS"),
    "too-long-a-message": frame(b"", length=1 << 31),
    "promises-much": frame(b"[", length=1 << 29),
    "half-a-message-and-more": frame(solution([0, 0, 1, 1]))[:-5],
    "raw-nan": frame(b'["solution",[NaN,Infinity,-Infinity,0]]'),
    "raw-infinite-bound": frame(b'["bound",Infinity]'),
    "deep-nesting": frame(b'["solution",' + b"[" * 100_000 + b"]" * 100_000 + b"]"),
    "million-digits": frame(b'["solution",[' + b"9" * 1_000_000 + b",0,0,0]]"),
    "odd-messages": b"".join(map(frame, ODD)),
}


@solver(track="pipeline", variants={name: {"value": name} for name in SENT})
def sends(instance, run, value):
    """Report, then send something else."""
    run.report([0] * instance.nodes)
    send(run, SENT[value])


@reporting
def breaks_pipe(instance, run):
    """Write rubbish into every pipe that is open."""
    for channel in range(3, 64):
        try:
            os.write(channel, b"rubbish" * 100)
        except OSError:
            continue


@reporting
def wrong_checksum(instance, run):
    """Send a message whose bytes were changed on the way, and a sound one."""
    send(run, frame(solution([0, 0, 1, 1]), checksum=0))
    run.report([0, 0, 1, 1])


@reporting
def half_a_message(instance, run):
    """Send half a message and leave."""
    send(run, frame(solution([0, 0, 1, 1]))[:-5])
    os._exit(0)


@reporting
def huge_message(instance, run):
    """Send one message of 300 MB."""
    send(run, frame(b"", length=300_000_000))
    for _ in range(300):
        send(run, bytes(1_000_000))


@solver(track="pipeline")
def many_incumbents(instance, run):
    """Report a solution 100,000 times, and something better in the end."""
    for _ in range(100):
        send(run, frame(solution()) * 1000)
    run.report([0, 0, 1, 1])


@solver(track="pipeline")
def floods(instance, run):
    """Report the same, two thousand times, and something better in the end."""
    for _ in range(2000):
        run.report([0] * instance.nodes)
    run.report([0, 0, 1, 1])


@reporting
def done_twice(instance, run):
    """Say that it is done, report something better, say so again."""
    run.send("done", 0)
    run.report([0, 0, 1, 1])
    run.send("done", 0)


@solver(track="pipeline")
def forges_its_memory(instance, run):
    """Say that it is done with less than no memory, then with all there is."""
    run.send("done", -(10**18))
    run.report([0] * instance.nodes)


@reporting
def odd_done(instance, run):
    """Say that it is done in words, and leave before the worker says so properly."""
    run.send("done", "quite")
    os._exit(0)


@reporting
def long_error(instance, run):
    """Send an error of a million lines and leave."""
    run.send("error", "woe\n" * 1_000_000)
    os._exit(0)


@solver(track="pipeline")
def closes_its_pipes(instance, run):
    """Close every file that is open, then report."""
    os.closerange(0, 256)
    run.report([0] * instance.nodes)


@reporting
def loses_its_pipe(instance, run):
    """Report, then replace the pipe by another file."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), run._channel)
    run.report([0, 0, 1, 1])


@reporting
def lets_a_child_write(instance, run):
    """Give the referee's pipe to a child that prints to it."""
    subprocess.run([sys.executable, "-c", "print('hello')"], stdout=run._channel, check=True)


@solver(track="pipeline")
def prints(instance, run):
    """Write a lot to stdout."""
    for _ in range(200):
        print("x" * 10_000)
    print("the end")
    return [0] * instance.nodes


@reporting
def prints_a_gigabyte(instance, run):
    """Write 1 GB to stdout."""
    for _ in range(1000):
        os.write(1, bytes(1_000_000))


@solver(track="pipeline")
def prints_bytes(instance, run):
    """Write every byte there is to stdout and stderr."""
    for end in (1, 2):
        os.write(end, bytes(range(256)) * 10)
    return [0] * instance.nodes


@solver(track="pipeline")
def swaps_its_output(instance, run):
    """Replace stdout and stderr by other objects, and close the real ones."""
    sys.stdout, sys.stderr = io.StringIO(), None
    sys.__stdout__.close()
    sys.__stderr__.close()
    return [0] * instance.nodes
