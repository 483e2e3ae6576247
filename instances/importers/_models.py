"""A model as an instance of the track that the user asks for, whatever file it came from."""

from __future__ import annotations

from typing import Any

from instances.errors import InputError
from instances.importers import Option
from instances.models.model import Model

TRACK = Option(str, "track of the instance (default: pipeline)", "pipeline", ("pipeline", "intraop"))
STAGES = Option(int, "pipeline: stages, one per device")
MESH = Option(str, "intraop: sizes of the axes of a mesh of devices, as 2x4")
DEVICE = Option(str, "kind of the devices, or a TOML file (default: h100)", "h100")
DIM = Option(dict, "a number for a size that has a name; may be repeated")


def instance_of(model: Model, *, track: str, stages: int | None, mesh: str | None, device: str) -> Any:
    """The instance that a model makes for equal devices, whose roofline prices its operators.

    Raises InputError if the track's own option is missing, if another track's is given, and for what the track refuses.
    """
    from instances.models.as_intraop import as_intraop
    from instances.models.as_pipeline import as_pipeline
    from instances.models.devices import device as device_named
    from instances.models.roofline import roofline

    found = device_named(device)
    if track == "intraop":
        return as_intraop(model, found, _required(mesh, "--mesh AxB", stages, "--stages", track)).instance
    count = _required(stages, "--stages N", mesh, "--mesh", track)
    return as_pipeline(model, roofline(model, found), found, count)


def _required(needed: Any, option: str, other: Any, other_option: str, track: str) -> Any:
    """The value of the option that a track needs."""
    if needed is None:
        raise InputError("import", option.split()[0], f"expected {option} for track {track}")
    if other is not None:
        raise InputError("import", other_option, f"expected no such option for track {track}")
    return needed
