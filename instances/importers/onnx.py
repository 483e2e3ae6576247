"""Graphs of neural networks in ONNX, priced for a kind of devices, as instances of the track of your choice.

Weights may be missing or in files of their own: only shapes count. Functions are inlined. Sizes that have a name get a
number by ``--dim batch=8``. Control flow and sizes that depend on computed values are refused. Operators of which
nothing is known but their tensors are taken to move bytes only, and counted in a note.

A node is an operator of the graph; its time follows from its arithmetic, its bytes and the data sheet of ``--device``.

``--track pipeline``     stages on equal devices (``--stages``)
``--track placement``    equal accelerators (``--accelerators``), and CPUs for what is better there (``--cpus``)
``--track scheduling``   unlike devices (``--machine``), for one run of the model
``--track intraop``      a mesh of devices that split every operator (``--mesh``)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from instances.importers import Option, _models

TRACK = "pipeline"
TELLS = True
OPTIONS: Mapping[str, Option] = {
    **_models.OPTIONS,
    "dim": Option(dict, "a number for a size that has a name; may be repeated"),
}


def read(path: Path, *, dim: Mapping[str, int], tell: Callable[[str], None], **given: Any) -> Any:
    """The instance of an ONNX file, plain or gzip; InputError for a model without one."""
    from instances.models.onnx_file import read_onnx

    return _models.instance_of(read_onnx(path, dim, tell), **given)
