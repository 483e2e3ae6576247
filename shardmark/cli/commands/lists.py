"""The command `list`: instances, solvers, bounds, suites and devices."""

from __future__ import annotations

import argparse
from typing import Any

from shardmark.cli import options as shared
from shardmark.cli.options import Answer, Command
from shardmark.cli.terminal import without_backticks
from shardmark.instances import InputError, catalog, tracks


def list_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `list`."""
    sub.add_argument("what", choices=("instances", "solvers", "bounds", "suites", "devices"))
    sub.add_argument("--track", choices=tracks(), help="list only this track")
    shared.add_solver_path(sub)


def run_list(options: argparse.Namespace) -> Answer:
    """List instances, solvers, bounds, suites, or the kinds of devices that `plan` can use.

    Devices are listed with memory in GB, memory and link bandwidth in GB/s, TFLOP/s per data type, and launch and link
    latency in µs.
    """
    if options.what == "devices":
        return 0, _devices(options.track)
    wanted = tracks() if options.track is None else (options.track,)
    if options.what == "instances":
        return 0, [
            {"id": e.id, "track": e.track, "suites": list(e.suites), "time_limit_s": e.time_limit_s, "note": e.note}
            for e in catalog.entries()
            if e.track in wanted
        ]
    if options.what == "suites":
        of_tracks = {name: [e for e in members if e.track in wanted] for name, members in catalog.suites().items()}
        return 0, [
            {"suite": name, "instances": len(members), "tracks": sorted({e.track for e in members})}
            for name, members in of_tracks.items()
            if members
        ]
    from shardmark.harness.campaign.discover import discover

    kind = options.what.removesuffix("s")
    found = [s for s in discover(options.solver_path) if s.kind == kind and s.track in wanted]
    abouts = (s.error or without_backticks(s.description) for s in found)
    return 0, [
        {"name": s.name, "track": s.track, "params": dict(s.params), "about": about}
        for s, about in zip(found, abouts, strict=True)
    ]


def _devices(track: str | None) -> list[dict[str, Any]]:
    from shardmark.instances.models.devices import devices

    if track is not None:
        raise InputError("list", "--track", "expected no track, as devices belong to no track")
    return [
        {
            "name": name,
            "memory_gb": device.memory / 1e9,
            "bandwidth_gb_s": device.bandwidth / 1e9,
            **{f"{dtype}_tflop_s": device.rate(dtype) / 1e12 for dtype in ("float16", "float32")},
            "launch_us": round(device.launch * 1e6, 6),
            "link_gb_s": device.link_bandwidth / 1e9,
            "link_latency_us": round(device.link_latency * 1e6, 6),
            "source": device.source,
        }
        for name, device in devices().items()
    ]


COMMANDS = (Command("list", run_list, list_arguments, "solvers"),)
