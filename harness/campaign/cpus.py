"""The CPUs of this machine that may be used, the CPUs of each slot, and claims on CPUs."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice

from shardmark.instances import InputError


def usable_cpus() -> list[int]:
    """Return the numbers of the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def core_sets(parallel: int, cores: int) -> list[list[int]]:
    """Return ``parallel`` disjoint sets of ``cores`` CPU numbers; InputError if there are too few CPUs."""
    usable = usable_cpus()
    if parallel * cores > len(usable):
        expected = f"expected a product of at most {len(usable)}, the usable cores, found {parallel} * {cores}"
        raise InputError("run", "--jobs and --cores", expected)
    return [usable[i * cores : (i + 1) * cores] for i in range(parallel)]


class Claims(ExitStack):
    """CPUs claimed by this process: while it lives, no other process can claim them for the same purpose.

    A claim is a name in Linux's abstract namespace of sockets: it vanishes with its process, however that ends.
    """

    def __init__(self, purpose: str) -> None:
        super().__init__()
        self.purpose = hashlib.sha256(os.fsencode(purpose)).hexdigest()  # a name has at most 107 bytes

    def take(self, cpus: Sequence[int], count: int) -> list[int]:
        """Claim the first ``count`` of these CPUs that are free; return those claimed, in their order."""
        return list(islice(filter(self._take, cpus), count))

    def _take(self, cpu: int) -> bool:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0shardmark {self.purpose} cpu {cpu}")
        except OSError:
            claim.close()
            return False
        self.enter_context(claim)
        return True
