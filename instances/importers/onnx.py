"""Graphs of neural networks in ONNX, priced for a kind of devices, as instances of the track of your choice.

Weights may be missing or in files of their own: only shapes count. Functions are inlined. Sizes that have a name get a
number by ``--dim batch=8``. Control flow and sizes that depend on computed values are refused. Operators of which
nothing is known but their tensors are taken to move bytes only, and counted in a note.

``--track pipeline`` asks for stages on equal devices (``--stages``), and ``--track intraop`` for a way to split every
operator over a mesh of devices (``--mesh``). A node is an operator of the graph; times follow from arithmetic, bytes
and the data sheet of ``--device``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from instances.importers import Option
from instances.importers._models import DEVICE, DIM, MESH, STAGES, instance_of
from instances.importers._models import TRACK as TRACK_OPTION

TRACK = "pipeline"
TELLS = True
OPTIONS: Mapping[str, Option] = {
    "track": TRACK_OPTION,
    "stages": STAGES,
    "mesh": MESH,
    "device": DEVICE,
    "dim": DIM,
}


def read(path: Path, *, dim: Mapping[str, int], tell: Callable[[str], None], **given: Any) -> Any:
    """The instance of an ONNX file, plain or gzip; InputError for a model without one."""
    from instances.models.onnx_file import read_onnx

    return instance_of(read_onnx(path, dim, tell), **given)
