"""ONNX models as instances of any track, with operator times for a kind of device.

Weights may be missing or external: only shapes count. Functions are inlined. ``--dim batch=8`` sets the value of a
symbolic size, and ``--dim x.0=8`` axis 0 of an input ``x`` if that size has no name. Control flow and sizes that depend
on computed values are refused. Unknown operators count only the bytes that they move; a note gives their number.

Each node is an operator of the graph; its time is computed from its arithmetic, its bytes and the data sheet of
``--device``.

``--track pipeline``     stages on equal devices (``--stages``)
``--track placement``    equal accelerators (``--accelerators``) and CPUs (``--cpus``)
``--track scheduling``   unequal devices (``--machine``), for one run of the model
``--track intraop``      a mesh of devices that shard every operator (``--mesh``)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shardmark.instances.importers import Option, _models

TRACK = "pipeline"
TELLS = True
OPTIONS: Mapping[str, Option] = {
    **_models.OPTIONS,
    "dim": Option(dict, "value of a symbolic size, such as batch=8, or x.0=8 if it has no name; may be repeated"),
}


def read(path: Path, *, dim: Mapping[str, int], tell: Callable[[str], None], **given: Any) -> Any:
    """Read an ONNX file, plain or gzip, as an instance; InputError if the model has none."""
    from shardmark.instances.models.onnx_file import read_onnx

    return _models.instance_of(read_onnx(path, dim, tell), **given)
