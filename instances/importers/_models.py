"""Turns a model of any format into an instance of the chosen track."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.importers import Option
from shardmark.instances.models.model import Model

#: For every track the option that it needs, with its placeholder.
NEEDED: Mapping[str, str] = {
    "pipeline": "stages N",
    "placement": "accelerators N",
    "scheduling": "machine FILE",
    "intraop": "mesh AxB",
}
CPU = "epyc-9654"

OPTIONS: Mapping[str, Option] = {
    "track": Option(str, "track of the instance (default: pipeline)", "pipeline", tuple(NEEDED)),
    "stages": Option(int, "pipeline: number of stages, one device each"),
    "accelerators": Option(int, "placement: number of accelerators, each a --device"),
    "cpus": Option(int, f"placement: number of CPUs, each an {CPU} (default: 1)"),
    "machine": Option(Path, "scheduling: JSON file of the devices; speed 1 is that of --device"),
    "mesh": Option(str, "intraop: sizes of the axes of the mesh, such as 2x4"),
    "device": Option(str, "kind of device, or a TOML file (default: h100)", "h100"),
    "fuse": Option(bool, "fuse chains of cheap operators first"),
}


def instance_of(model: Model, *, track: str, device: str, fuse: bool, **given: Any) -> Any:
    """Return the instance of a model, with the roofline of ``device`` as the times of operators.

    Raises InputError if the track's own option is missing, if another track's option is given, or if the track refuses
    the model.
    """
    from shardmark.instances.models.as_intraop import as_intraop
    from shardmark.instances.models.as_pipeline import as_pipeline
    from shardmark.instances.models.as_placement import as_placement
    from shardmark.instances.models.as_scheduling import as_scheduling
    from shardmark.instances.models.devices import device as device_named
    from shardmark.instances.models.fuse import fuse as fused
    from shardmark.instances.models.roofline import roofline

    _require_options(track, given)
    kind = device_named(device)
    if fuse:
        model, _ = fused(model)
    costs = roofline(model, kind)
    if track == "pipeline":
        return as_pipeline(model, costs, kind, given["stages"])
    if track == "scheduling":
        return as_scheduling(model, costs, given["machine"])
    if track == "intraop":
        return as_intraop(model, kind, given["mesh"]).instance
    accelerators, cpus = given["accelerators"], 1 if given["cpus"] is None else given["cpus"]
    if accelerators < 1 or cpus < 0:
        raise InputError("import", "--accelerators", "expected at least one, and no negative number of --cpus")
    return as_placement(model, costs, roofline(model, device_named(CPU)), kind, accelerators, cpus)


def _require_options(track: str, given: Mapping[str, Any]) -> None:
    """Raise InputError unless the options are those of the track."""
    needed = NEEDED[track].split()[0]
    if given[needed] is None:
        raise InputError("import", f"--{needed}", f"expected --{NEEDED[track]} for track {track}")
    for name, value in given.items():
        if value is not None and name != needed and not (name == "cpus" and track == "placement"):
            raise InputError("import", f"--{name}", f"expected no such option for track {track}")
