"""Facts about the machine and the software of a campaign."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("numpy", "ortools", "polars", "pyscipopt", "pytoulbar2")


def version() -> str:
    """Version of the installed project, "unknown" when it runs without being installed."""
    try:
        return importlib.metadata.version("shardmark")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def facts() -> dict[str, Any]:
    """Processor, cores that may be used, memory in MiB, system, Python and the packages that solvers stand on."""
    affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return {
        "cpu": _processor(),
        "cores": len(affinity),
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: _package(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _package(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
