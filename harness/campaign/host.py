"""Facts about the machine and the software of a campaign, and disturbances of the machine during it."""

from __future__ import annotations

import errno
import importlib.metadata
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

ROOT = Path("/")
CHECKOUT = Path(__file__).resolve().parents[2]  # folder of the project, if it is not installed
CPUS = "sys/devices/system/cpu"  # folder of the CPUs below `ROOT`
STOLEN = 0.01  # share of a virtual machine's CPU time that its host may take (steal time) before it is a disturbance
WAITED = 0.1  # share of the time during which a process may wait for a CPU because of other programs
TICKS = os.sysconf("SC_CLK_TCK")  # ticks of CPU time per second
ABSENT = (
    errno.ENOENT,
    errno.EOPNOTSUPP,
)  # errors of an absent counter; the latter if pressure stall information is switched off
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20  # MiB of a page of memory
#: Packages whose versions are facts.
PACKAGES = ("benchexec", "distributed", "numpy", "ortools", "polars", "pyscipopt", "pytoulbar2")


def version() -> str:
    """Return the version of the installed project, "unknown" if it is not installed.

    In a checkout it ends in the commit, as in ``0.1.0+g1a2b3c4d5e6f``, and in ``.dirty`` if files differ from it.
    """
    return (_package("shardmark") or "unknown") + _commit()


def facts() -> dict[str, Any]:
    """Return the facts of a machine that a campaign records; a fact that is unknown is None.

    ``cpu``         name of the processor               ``os``        distribution
    ``cores``       number of CPUs that may be used     ``kernel``    name and release
    ``memory_mib``  memory                              ``cgroup``    version of the control groups: 1 or 2
    ``governor``    governor of the processor's clock   ``python``    version
    ``turbo``       True if it may exceed its base clock
    ``packages``    versions of packages that solvers use

    A campaign adds the ``yardstick``, see `shardmark.harness.campaign.yardstick`.
    """
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "governor": _governor(ROOT),
        "turbo": _turbo(ROOT),
        "os": _system(),
        "kernel": f"{platform.system()} {platform.release()}",
        "cgroup": _cgroup_version(ROOT),
        "python": platform.python_version(),
        "packages": {name: _package(name) for name in PACKAGES},
    }


class Disturbances:
    """Events on a machine that make measured times unreliable.

    Counters of the system are read when the object is made and again by `found`. A counter that the system does not
    have is ignored; one that exists but cannot be read is a disturbance. ``root`` contains ``proc`` and ``sys``.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.start = time.monotonic()
        self.before, _ = _counters(root)

    def found(self, killed: int = 0) -> list[str]:
        """Return a sentence per disturbance; ``killed`` runs may be among the processes killed for lack of memory."""
        now, unread = _counters(self.root)
        rise = {name: now[name] - self.before[name] for name in now.keys() & self.before}
        return unread + _sentences(rise | {"seconds": time.monotonic() - self.start}, killed)


def _sentences(rise: dict[str, float], killed: int) -> list[str]:
    """Return a sentence per counter of `_counters` that rose too much."""
    found = []
    if hot := {name.split()[1] for name, count in rise.items() if name.startswith("heat ") and count > 0}:
        found.append(f"The processor was throttled because of heat: {', '.join(sorted(hot))}.")
    if (held := sum(count for name, count in rise.items() if name.startswith("quota "))) > 0:
        found.append(f"Scheduler periods in which a quota on CPU time throttled this machine: {held:.0f}.")
    swapped = [rise.get(name, 0) * PAGE_MIB for name in ("pswpin", "pswpout")]
    if any(swapped):
        found.append(f"The system swapped: {swapped[0]:.1f} MiB came in, {swapped[1]:.1f} MiB went out.")
    if (stolen := rise.get("steal", 0)) > STOLEN * rise.get("time", 0):
        found.append(
            f"{100 * stolen / rise['time']:.1f} % of the CPU time was stolen by the host of this virtual machine."
        )
    # Threads of a run also wait for each other: nobody waits longer because of other programs than these run.
    others = max(0.0, rise["busy"] - rise["own"]) if "busy" in rise else math.inf
    if (waited := min(rise.get("waited", 0) / 1e6, others)) > WAITED * rise["seconds"]:
        found.append(
            f"During up to {100 * waited / rise['seconds']:.0f} % of the time a process had to wait for a CPU "
            "because of other programs."
        )
    if (kills := rise.get("oom_kill", 0)) > killed:
        found.append(f"Processes that the system killed for lack of memory: {kills:.0f}, of which {killed} were runs.")
    return found


def _counters(root: Path) -> tuple[dict[str, float], list[str]]:
    """Return the system's counters by name, and a sentence per file that cannot be read."""
    counters: dict[str, float] = {"own": _own_cpu()}
    unread = []
    for path, read in _sources(root):
        try:
            counters |= read(path.read_text())
        except (OSError, ValueError, IndexError) as error:
            if getattr(error, "errno", None) in ABSENT:
                continue
            why = getattr(error, "strerror", None) or "its form is unknown"
            unread.append(f"/{path.relative_to(root)} could not be read ({why}).")
    return counters, unread


def _sources(root: Path) -> Iterator[tuple[Path, Callable[[str], dict[str, float]]]]:
    """Yield files that may hold counters, each with a function that reads its text."""
    for path in (root / CPUS).glob("cpu[0-9]*/thermal_throttle/*_throttle_count"):
        yield path, partial(_single, f"heat {path.parts[-3]} {path.name}")
    for folder in _cgroups(root):
        yield folder / "cpu.stat", partial(_named, {"nr_throttled": f"quota {folder}"})
    yield root / "proc/vmstat", partial(_named, {name: name for name in ("pswpin", "pswpout", "oom_kill")})
    yield root / "proc/stat", _ticks
    yield root / "proc/pressure/cpu", _pressure


def _single(name: str, text: str) -> dict[str, float]:
    return {name: float(text)}


def _named(names: dict[str, str], text: str) -> dict[str, float]:
    """Return the numbers of lines "NAME NUMBER" whose name is a key of ``names``, by its value there."""
    lines = [line.split() for line in text.splitlines()]
    return {names[line[0]]: float(line[1]) for line in lines if line[0] in names}


def _ticks(text: str) -> dict[str, float]:
    """Return steal and total time in ticks, and the CPU time of all processes in seconds.

    The first line is user, nice, system, idle, iowait, irq, softirq, steal.
    """
    ticks = [float(word) for word in text.split("\n", 1)[0].split()[1:9]]
    return {"steal": ticks[7], "time": sum(ticks), "busy": (sum(ticks[:3]) + ticks[5] + ticks[6]) / TICKS}


def _own_cpu() -> float:
    """Return the CPU time in seconds of this process and its descendants, also of those that have ended."""
    found = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found += times.user + times.system + times.children_user + times.children_system
    return found


def _pressure(text: str) -> dict[str, float]:
    """Return the microseconds during which some process waited for a CPU, from the line ``some``."""
    name, total = text.split("\n", 1)[0].split()[::4]
    if name != "some" or not total.startswith("total="):
        raise ValueError(text)
    return {"waited": float(total.removeprefix("total="))}


def _cgroups(root: Path) -> list[Path]:
    """Return the folders of this process's control group of CPU time and of all groups above it."""
    unified = _cgroup_version(root) == 2
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if (unified and not controllers) or "cpu" in controllers.split(","):
            mount = root / "sys/fs/cgroup" / ("" if unified else "cpu")
            own = mount / path.lstrip("/")
            return [folder for folder in (own, *own.parents) if folder.is_relative_to(mount)]
    return []


def _cgroup_version(root: Path) -> int | None:
    if (root / "sys/fs/cgroup/cgroup.controllers").exists():
        return 2
    return 1 if (root / "sys/fs/cgroup/cpu").exists() or (root / "sys/fs/cgroup/memory").exists() else None


def _governor(root: Path) -> str | None:
    found = (_text(path) for path in sorted((root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")))
    return ", ".join(dict.fromkeys(filter(None, found))) or None


def _turbo(root: Path) -> bool | None:
    for name, on in (("intel_pstate/no_turbo", "0"), ("cpufreq/boost", "1")):
        if text := _text(root / CPUS / name):
            return text == on
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _processor() -> str:
    found = re.search(r"^model name.*?: *(.*\S)", _text(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _commit() -> str:
    """The suffix of a version that names the commit of this checkout; empty outside a checkout or without git."""
    if not (CHECKOUT / ".git").exists():
        return ""
    command = ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty=.dirty", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"+g{done.stdout.strip()}"


def _package(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
