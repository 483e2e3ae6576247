"""What a run may use, what the referee asks of the process that watches it, what that sees, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Variable of all processes that the referee starts: the folder of the supervisor, or of the import.
SUPERVISOR_VARIABLE = "SHARDMARK_SUPERVISOR"
#: Variables by which numeric libraries learn how many threads they may start.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
#: Values of `--limits` and `--isolation`; see `harness.sandbox.backends.choice.choose`.
LIMITS = ("auto", "benchexec", "posix")
ISOLATION = ("auto", "none")
#: What `Outcome.enforced` speaks of; the last two are isolation.
MEASURES = ("wall", "cpu", "memory", "cores", "processes", "output", "network", "files")


class Cancelled(Exception):
    """The campaign was interrupted while this run was under way."""


class BackendError(Exception):
    """A backend cannot carry out runs on this machine; the text says why."""


@dataclass(frozen=True)
class Limits:
    """What a run may use, its whole process tree together.

    ``timeout_s``   seconds of wall time       ``cpu_s``       seconds of CPU time; None: what the cores can give
    ``memory_mib``  MiB of memory              ``processes``   processes alive at once
    ``cores``       cores it may compute on    ``output_mib``  MiB it may send, print or write to scratch
    """

    timeout_s: float
    memory_mib: float
    cores: int = 1
    cpu_s: float | None = None
    processes: int = 512
    output_mib: float = 256.0

    @property
    def cpu_limit_s(self) -> float:
        """The limit on CPU time in seconds; by default a little above what the cores can give in time."""
        return self.cores * self.timeout_s + 1.0 if self.cpu_s is None else self.cpu_s

    def margin_s(self) -> float:
        """How long before the limit a solver's own deadline lies, so that its last report arrives in time."""
        return min(0.5, max(0.2, 0.05 * self.timeout_s), 0.2 * self.timeout_s)

    def overused(self, peak_mib: float) -> str:
        """The reason of a run that used more memory than it may."""
        used, most = (f"{mib:.0f}" if mib >= 10 else f"{mib:.2g}" for mib in (peak_mib, self.memory_mib))
        return f"used {used} MiB, the limit is {most} MiB"


@dataclass(frozen=True)
class Order:
    """One run as a supervisor gets it: plain JSON values only.

    ``instance`` is a path and ``checksum`` the SHA-256 of its decompressed content. A Python solver has ``file`` and
    ``settings``, parameters with other values than it declares, an external one the ``command`` with its placeholders.
    ``cpus`` are the numbers of the CPUs to pin to. ``hidden`` is a folder that an isolated run does not see, "" for
    none.
    """

    track: str
    instance: str
    checksum: str
    options: Mapping[str, Any]
    solver: str
    file: str
    seed: int
    limits: Limits
    cpus: tuple[int, ...] = ()
    command: tuple[str, ...] = ()
    hidden: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """How a run ended and what it sent.

    ``stop`` is "exit", "timeout", "cpu", "memory", "processes", "output", "crash", "import", "lost" or "error";
    ``reason`` says more unless it is "exit". ``messages`` holds (seconds since the start, payload) of what arrived
    within the limit. ``enforced`` says for each of `MEASURES` how it was held: "hard", "polled" or not at all, "none".
    """

    stop: str = "exit"
    reason: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0
    messages: list[tuple[float, bytes]] = field(default_factory=list)
    fault: str | None = None
    log: str = ""
    backend: str = ""
    enforced: dict[str, str] = field(default_factory=dict)
    host: str = ""


@dataclass
class Usage:
    """What a run's processes use: bytes of memory now, greatest memory so far, seconds of CPU, how many there are.

    ``threads`` is how many they have together, 0 where nobody counts them.
    ``written`` is bytes in the files of its scratch folder. ``out_of_memory``: the system itself ended the run, because
    it wanted more memory than it may use. ``unended``: some process could not be ended, and nothing else is known.
    """

    memory: float = 0.0
    peak: float = 0.0
    cpu_s: float = 0.0
    processes: int = 0
    threads: int = 0
    written: float = 0.0
    out_of_memory: bool = False
    unended: bool = False
