"""The CPUs of this machine: which may be used, which each slot has, and who has claimed which."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterable, Sequence

from instances import InputError


def usable_cpus() -> list[int]:
    """Numbers of the CPUs that this process may use; without a system that pins, one number each."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def core_sets(parallel: int, cores: int) -> list[list[int]]:
    """Disjoint sets of CPU numbers, one for each run that is under way at once; InputError if there are too few."""
    usable = usable_cpus()
    if parallel * cores > len(usable):
        expected = f"expected at most {len(usable)} cores in use at once, {parallel} runs of {cores} are more"
        raise InputError("run", "--jobs and --cores", expected)
    return [usable[i * cores : (i + 1) * cores] for i in range(parallel)]


def pin(cpus: Iterable[int]) -> None:
    """Keep the thread that calls, and whatever it starts, on these CPUs, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


class Claims:
    """CPUs that this process keeps for itself, as long as it lives, against all others that serve the same purpose.

    A claim is a name in Linux's abstract namespace of sockets: it goes with its process, however that ends. On other
    systems every claim is granted.
    """

    def __init__(self, purpose: str) -> None:
        self.purpose = hashlib.sha256(purpose.encode()).hexdigest()  # a name has at most 107 bytes
        self.held: list[socket.socket] = []

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        while self.held:
            self.held.pop().close()

    def take(self, cpus: Sequence[int], count: int) -> list[int]:
        """Claim the first ``count`` of these CPUs that are free; those that were found, in their order."""
        found: list[int] = []
        for cpu in cpus:
            if len(found) < count and self._take(cpu):
                found.append(cpu)
        return found

    def _take(self, cpu: int) -> bool:
        if sys.platform != "linux":
            return True
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0shardmark {self.purpose} cpu {cpu}")
        except OSError:
            claim.close()
            return False
        self.held.append(claim)
        return True
