"""Writes a plan into a copy of its ONNX model, as the multi-device metadata of ONNX (IR version 11 and later).

A pipeline becomes the ``pipeline_stage`` of every node, a mesh plan the ``sharding_spec`` of tensors. The node that
writes a tensor has its spec; for inputs and initializers of the model, every node that reads them has it. Specs follow
https://github.com/onnx/onnx/blob/main/docs/proposals/ONNXMultiDeviceProposal.md: shards are counted row by row, and
devices with the same shard form a group, which has a negative number. Devices of a mesh are also counted row by row.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.plans.exports.external_data import carry_weights
from shardmark.plans.exports.onnx_graph import load, reads, require_valid

IR_VERSION = 11  # the first with multi-device metadata
NAME = "shardmark"  # of the configuration

Spec = Sequence[Sequence[str] | None]  # for each dimension, the axes that split it, the outermost first


def export_annotated(
    model_path: str | os.PathLike[str],
    stage_of: Mapping[str, int],
    path: str | os.PathLike[str],
    *,
    specs: Mapping[str, Any] | None = None,
    digest: str | None = None,
) -> None:
    """Write a copy of a model, with local functions inlined, annotated with its stages or shards.

    ``stage_of``  stage by operator name (`shardmark.instances.models.onnx_graph.names`); a constant is in the first
                  stage that needs it
    ``path``      of the copy; external data become one file in the same folder, whose name ends in ``.data``
    ``specs``     for a mesh, in the format of `shardmark.plans.partition_specs`; then no node has a stage
    ``digest``    SHA-256 of the model that was planned; None accepts any

    Raises InputError if the file is not the plan's model, or if the copy is invalid or cannot be written; then nothing
    is written.
    """
    source, target = Path(model_path), Path(path)
    model = load(source, digest)
    names = operator_names(model.graph.node)
    planned = stage_of if specs is None else specs["operators"]
    unknown = next(iter(planned.keys() - set(names)), None)
    if unknown is not None:
        raise InputError(source, "", f"expected the model of the plan, found no operator {unknown!r}")
    model.ir_version = max(model.ir_version, IR_VERSION)
    if specs is None:
        model.configuration.add(name=NAME, num_devices=1 + max(stage_of.values(), default=0))
        _annotate_stages(model.graph, [stage_of.get(name) for name in names])
    else:
        mesh = dict(zip(specs["mesh"]["axes"], specs["mesh"]["sizes"], strict=True))
        model.configuration.add(name=NAME, num_devices=int(np.prod(list(mesh.values()))))
        _annotate_specs(model.graph, names, specs, mesh)
    _write(model, source, target)


def _annotate_stages(graph: Any, stages: list[int | None]) -> None:
    first: dict[str, int] = {}  # stage that reads a tensor
    for node, stage in reversed(list(zip(graph.node, stages, strict=True))):
        if stage is None:
            stage = min((first[name] for name in node.output if name in first), default=0)
        for name in reads(node):
            first[name] = min(stage, first.get(name, stage))
        node.device_configurations.add(configuration_id=NAME, pipeline_stage=stage)


def _annotate_specs(graph: Any, names: Sequence[str], specs: Mapping[str, Any], mesh: Mapping[str, int]) -> None:
    used = {name for node in graph.node for name in reads(node)} | {info.name for info in graph.output}
    written = {name for node in graph.node for name in node.output}
    for node, name in zip(graph.node, names, strict=True):
        found = {tensor: specs["inputs"][tensor] for tensor in reads(node) if tensor in specs["inputs"]}
        found = {tensor: spec for tensor, spec in found.items() if tensor not in written}
        if name in specs["operators"]:
            outputs = [output for output in node.output if output in used]
            found |= zip(outputs, specs["operators"][name]["results"], strict=True)
        else:  # a constant
            found |= {tensor: specs["inputs"][tensor] for tensor in node.output if tensor in specs["inputs"]}
        if found:
            configuration = node.device_configurations.add(configuration_id=NAME)
            for tensor, spec in found.items():
                _add_spec(configuration, tensor, spec, mesh)


def _add_spec(configuration: Any, tensor: str, spec: Spec, mesh: Mapping[str, int]) -> None:
    added = configuration.sharding_spec.add(tensor_name=tensor)
    for number, devices in enumerate(shards(spec, mesh), 1):
        if len(devices) == 1:
            added.device.extend(devices)
        else:
            added.device.append(-number)
            added.index_to_device_group_map.add(key=-number, value=devices)
    for axis, split in enumerate(spec):
        if split:
            count = int(np.prod([mesh[name] for name in split]))
            added.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=count)


def shards(spec: Spec, mesh: Mapping[str, int]) -> Iterator[list[int]]:
    """The devices that hold each shard of a tensor, shards in ONNX's order."""
    split = [list(mesh).index(axis) for axes in spec for axis in axes or ()]
    others = [axis for axis in range(len(mesh)) if axis not in split]
    sizes = list(mesh.values())
    count = int(np.prod([sizes[axis] for axis in split]))
    devices = np.arange(np.prod(sizes)).reshape(sizes).transpose(*split, *others).reshape(count, -1)
    yield from devices.tolist()


def _write(model: Any, source: Path, target: Path) -> None:
    """Write a model with its external data, by a temporary folder."""
    data = target.with_suffix(".data")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            carry_weights(model, source, Path(folder) / data.name)
            staged = Path(folder) / target.name
            staged.write_bytes(model.SerializeToString(deterministic=True))
            require_valid(model, source)
            for file in (data, target):
                if (Path(folder) / file.name).exists():
                    os.replace(Path(folder) / file.name, file)
    except OSError as error:
        raise InputError(target, "", f"expected a path that can be written ({error.strerror})") from None
