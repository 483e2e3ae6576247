"""The contract of the sandbox: limits, the order for one run, its resource usage and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Environment variable of every process that the referee starts: the folder of its supervisor, or of an import check.
SUPERVISOR_VARIABLE = "SHARDMARK_SUPERVISOR"
#: Environment variables that set the number of threads of numeric libraries.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
#: Values of ``--limits``, see `shardmark.harness.sandbox.backends.choice.choose`.
LIMITS = ("auto", "benchexec", "posix")
ISOLATION = ("auto", "none")  # values of ``--isolation``
#: Keys of `Outcome.enforced`; "network" and "files" are isolation.
MEASURES = ("wall", "cpu", "memory", "cores", "processes", "output", "network", "files")

#: `Outcome.stop` and status of a run that was ended from outside: it is not scored, and a campaign repeats it.
KILLED = "killed"

#: Default limits of a run: MiB of memory, and seconds of wall time on an instance without a limit in the catalog, for a
#: run that a user waits for and for one of a campaign.
DEFAULT_MEMORY_MIB, DEFAULT_TIMEOUT_S, CAMPAIGN_TIMEOUT_S = 4096.0, 10.0, 60.0


class Cancelled(Exception):
    """The run was cancelled because its campaign was interrupted."""


class BackendError(Exception):
    """A backend cannot carry out a run on this machine; the text gives the reason."""


def margin_s(timeout_s: float) -> float:
    """Return the seconds between a solver's own deadline and the limit, so that its last report arrives in time."""
    return min(0.5, max(0.2, 0.05 * timeout_s), 0.2 * timeout_s)


@dataclass(frozen=True)
class Limits:
    """Limits on the whole process tree of a run.

    ``timeout_s``   seconds of wall time       ``cpu_s``       seconds of CPU time; None: see `cpu_limit_s`
    ``memory_mib``  MiB of memory              ``processes``   processes alive at once
    ``cores``       cores                      ``output_mib``  MiB sent, printed or written to the scratch folder
    """

    timeout_s: float
    memory_mib: float
    cores: int = 1
    cpu_s: float | None = None
    processes: int = 512
    output_mib: float = 256.0

    @property
    def cpu_limit_s(self) -> float:
        """Limit on CPU time in seconds; by default all cores for the whole time plus one second."""
        return self.cores * self.timeout_s + 1.0 if self.cpu_s is None else self.cpu_s

    def margin_s(self) -> float:
        """Return the seconds between a solver's own deadline and the limit, so that its last report arrives in time."""
        return margin_s(self.timeout_s)

    def memory_reason(self, peak_mib: float) -> str:
        used, limit = (f"{mib:.0f}" if mib >= 10 else f"{mib:.2g}" for mib in (peak_mib, self.memory_mib))
        return f"used {used} MiB, the limit is {limit} MiB"


@dataclass(frozen=True)
class Order:
    """One run as the supervisor and the worker receive it; all values are plain JSON.

    ``instance`` is a path and ``checksum`` the SHA-256 of its decompressed content. A Python solver has ``file`` and
    ``settings``, the parameters whose values differ from the declared ones; an external solver has ``command`` with
    its placeholders. ``cpus`` are the numbers of the CPUs to pin the run to. An isolated run cannot see the folder
    ``hidden``; "" hides nothing. ``certify`` asks the solver for certificates of its bounds.
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
    certify: bool = False

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Order:
        """Return the order that `dataclasses.asdict` and JSON turned into ``content``."""
        tuples = {"cpus": tuple(content["cpus"]), "command": tuple(content["command"])}
        return cls(**{**content, **tuples, "limits": Limits(**content["limits"])})


@dataclass
class Outcome:
    """The end of a run and what it sent.

    ``begun_s`` is the seconds until a worker had read the instance and called the solver, None if it never did; 0 for
    programs, which read it themselves. ``stop`` is "exit", "timeout", "cpu", "memory", "processes", "output", "crash",
    `KILLED`, "import", "lost", "error" or "halted" (at the client's request); ``reason`` is a sentence
    unless it is "exit".
    ``messages`` holds (seconds since the start, payload) per message that arrived within the time limit. ``enforced``
    maps each of `MEASURES` to "hard" (the system enforces it), "polled" (the monitor does) or "none".
    """

    stop: str = "exit"
    reason: str = ""
    begun_s: float | None = 0.0
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
    """Resources of all processes of a run: current and peak memory in bytes, CPU seconds, number of processes.

    ``threads`` is their total number of threads, 0 if unknown. ``written`` is the bytes of the files in the scratch
    folder. ``out_of_memory``: the system ended the run for lack of memory, at its own limit if ``peak`` has reached it.
    ``unended``: some process could not be killed, and nothing else is known.
    """

    memory: float = 0.0
    peak: float = 0.0
    cpu_s: float = 0.0
    processes: int = 0
    threads: int = 0
    written: float = 0.0
    out_of_memory: bool = False
    unended: bool = False
