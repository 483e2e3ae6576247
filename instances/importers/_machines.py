"""Devices for graphs that have none: random, or read from a file, as in a scheduling document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from shardmark.instances import scheduling
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import plain
from shardmark.instances.files.jsonfile import read_json, require_keys
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.generate.simulated import links, speeds
from shardmark.instances.importers import Option

DEFAULT_DEVICES = 50  # as in the paper
MAX_DEVICES = 2000  # every pair has a bandwidth
SEED = Option(int, "seed of random numbers (default: 0)", 0)
MACHINE = Option(
    Path, 'JSON file of the devices, {"devices": {"speed": [...]}, "bandwidth": [[...]]}, instead of random ones'
)

#: The keys ``devices`` and ``bandwidth`` of a scheduling document.
Machine = dict[str, Any]


def machine_of(
    path: Path | None, devices: int | None, draws: Draws, name: Callable[[int], str] = "device-{}".format
) -> Machine:
    """The devices of a file or, without one, ``devices`` random ones (default: 50), as in the paper's Section 5.1.

    The file has the keys ``devices`` and ``bandwidth`` of a scheduling instance. Raises InputError for a bad file, a
    bad count, or both a file and a count.
    """
    if path is not None and devices is not None:
        raise InputError("import", "--devices", "expected no such option with --machine: its file defines the devices")
    if path is not None:
        return machine_in(path)
    devices = DEFAULT_DEVICES if devices is None else devices
    if not 1 <= devices <= MAX_DEVICES:
        raise InputError("import", "--devices", f"expected 1 to {MAX_DEVICES}, found {devices}")
    bandwidth = links(draws, devices)
    rows = [[*row[:i], None, *row[i + 1 :]] for i, row in enumerate(map(plain, bandwidth))]
    columns = {"name": [name(device) for device in range(devices)], "speed": plain(speeds(draws, devices))}
    return {"devices": columns, "bandwidth": rows}


def seeded(seed: int) -> Draws:
    """A source of random numbers; InputError for a seed below 0."""
    if seed < 0:
        raise InputError("import", "--seed", f"expected a whole number, at least 0, found {seed}")
    return Draws(seed)


def machine_in(path: Path) -> Machine:
    """The keys ``devices`` and ``bandwidth`` of a file, and names of the devices; InputError for a bad file."""
    document = require_keys(read_json(path), str(path), "", ("devices", "bandwidth"), ("comment",))
    machine = {key: document[key] for key in ("devices", "bandwidth")}
    empty = {"format": scheduling.FORMAT, "nodes": {"complexity": []}, "edges": []}
    speeds_ = machine["devices"].get("speed") if isinstance(machine["devices"], dict) else None
    if isinstance(speeds_, list) and len(speeds_) > MAX_DEVICES:
        raise InputError(path, "devices.speed", f"expected at most {MAX_DEVICES} devices, found {len(speeds_)}")
    instance = scheduling.parse({**empty, **machine}, str(path))
    machine["devices"] = {**machine["devices"], "name": list(instance.device_names)}
    return machine
