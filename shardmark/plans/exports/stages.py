"""Cuts an ONNX model into one model per stage, with a manifest of the tensors between them.

The folder holds ``stage-0.onnx``, ``stage-1.onnx`` and so on. If the model keeps weights outside its file, a stage's
weights are in ``stage-0.data``. ``manifest.json`` has these keys:

``format``   "shardmark/stages/1"
``model``    SHA-256 of the model's file, decompressed
``inputs``   tensors that the model reads
``outputs``  tensors that the model returns; ``from`` is the stage that writes it, null for an input of the model
``stages``   in the order in which they run:

  ``stage``      number of the stage in the plan; stages without operators are omitted
  ``file``       name of its model
  ``sha256``     of each of its files, by name
  ``operators``  names of its operators, without the constants
  ``inputs``     tensors that it reads; ``from`` is the stage that writes it, null for an input of the model
  ``outputs``    tensors that later stages read or the model returns; if there are none, an unread one

A tensor has ``name``, ``dtype``, ``shape`` and ``bytes``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.folders import replaced_folder
from shardmark.instances.files.jsonfile import read_bytes, sha256, write_json
from shardmark.instances.models.model import Tensor
from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.plans.exports.external_data import carry_weights
from shardmark.plans.exports.onnx_graph import header, load_fixed, reads, require_valid, value_info

FORMAT = "shardmark/stages/1"
MANIFEST = "manifest.json"
KEYS = ("format", "model", "inputs", "outputs", "stages")
STAGE_KEYS = ("stage", "file", "sha256", "operators", "inputs", "outputs")


def export_stages(
    model_path: str | os.PathLike[str],
    stage_of: Mapping[str, int],
    folder: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    branches: Mapping[str, str] | None = None,
    digest: str | None = None,
) -> dict[str, Any]:
    """Write one ONNX model per stage and ``manifest.json`` into a folder, and return the manifest.

    ``stage_of``  stage by operator name (`shardmark.instances.models.onnx_graph.names`). A node that it does not name
                  must be a constant; every stage that needs it gets a copy.
    ``folder``    new, or with stages that are replaced
    ``dims``      sizes of symbolic dimensions
    ``branches``  choices of branches, for which alone the stages are right
    ``digest``    SHA-256 of the model that was planned; None accepts any

    An initializer is copied to every stage that reads it; local functions are inlined.

    Raises InputError if the file is not the plan's model or an operator reads from a later stage. The folder appears
    complete or not at all.
    """
    path = Path(model_path)
    model, tensors = load_fixed(path, dims or {}, digest, branches)
    cut = _Cut(path, model, tensors, stage_of)
    with replaced_folder(Path(folder), MANIFEST) as staged:
        manifest = {
            "format": FORMAT,
            "model": sha256(read_bytes(path)),
            "inputs": [cut.port(name) for name in cut.inputs],
            "outputs": [cut.port(name) | {"from": cut.home.get(name)} for name in cut.outputs],
            "stages": [_write(cut, stage, staged) for stage in cut.stages],
        }
        write_json(staged / MANIFEST, manifest)
    return manifest


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, which need not fit into memory."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(path, "", f"expected a file that can be read ({error.strerror})") from None


@dataclass
class _Stage:
    """A stage: indices of its nodes, ascending, and names of its initializers, inputs and outputs.

    Constants that it needs are among its nodes.
    """

    number: int
    nodes: list[int]
    initializers: set[str]
    inputs: list[str]
    outputs: list[str] = field(default_factory=list)


class _Cut:
    """A model and its stages.

    ``home``  for every tensor that an operator writes, and every constant that the model returns, its stage
    """

    def __init__(self, path: Path, model: Any, tensors: Mapping[str, Tensor], stage_of: Mapping[str, int]) -> None:
        self.path = path
        self.model = model
        self.tensors = tensors
        graph = model.graph
        self.names = operator_names(graph.node)
        self.initializers = {tensor.name for tensor in graph.initializer}
        self.initializers |= {tensor.values.name for tensor in graph.sparse_initializer}
        self.inputs = [info.name for info in graph.input if info.name not in self.initializers]
        self.outputs = [info.name for info in graph.output]
        self.producer = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
        self._require_names(stage_of)
        self.number = [stage_of.get(name) for name in self.names]
        self.nodes = list(graph.node)
        self.reads = [reads(node) for node in self.nodes]
        self.home = {name: number for name, i in self.producer.items() if (number := self.number[i]) is not None}
        self._require_constants()
        self._require_order()
        numbers = sorted(set(stage_of.values()))
        returned = [name for name in self.outputs if name not in self.home and name not in self.inputs]
        self.stages = [self._collect(number, returned if number == numbers[-1] else ()) for number in numbers]
        self.home |= dict.fromkeys(returned, numbers[-1])
        self._choose_outputs()

    def port(self, name: str) -> dict[str, Any]:
        """A tensor as the manifest describes it."""
        tensor = self.tensors[name]
        return {"name": name, "dtype": tensor.dtype, "shape": list(tensor.shape), "bytes": tensor.bytes}

    def _require_names(self, stage_of: Mapping[str, int]) -> None:
        unknown = next(iter(stage_of.keys() - set(self.names)), None)
        if unknown is not None:
            raise InputError(self.path, "", f"expected the model of the plan, found no operator {unknown!r}")
        if not stage_of:
            raise InputError(self.path, "", "expected a plan with at least one operator")

    def _require_constants(self) -> None:
        """A node without a stage reads nothing that an operator writes or the caller gives, or nobody reads it."""
        given = self.home.keys() | set(self.inputs)
        used = {name for read in self.reads for name in read} | set(self.outputs)
        for name, number, node, read in zip(self.names, self.number, self.nodes, self.reads, strict=True):
            if number is None and not given.isdisjoint(read) and not used.isdisjoint(node.output):
                expected = "expected a stage for this operator in the plan, as it is not a constant"
                raise InputError(self.path, f"operator {name!r}", expected)

    def _require_order(self) -> None:
        for index, number in enumerate(self.number):
            if number is None:
                continue
            for name in self.reads[index]:
                if self.home.get(name, number) > number:
                    producer = self.names[self.producer[name]]
                    place = f"operator {self.names[index]!r} of stage {number}"
                    expected = f"expected no input from a later stage, found {producer!r} of stage {self.home[name]}"
                    raise InputError(self.path, place, expected)

    def _collect(self, number: int, returned: Iterable[str]) -> _Stage:
        """A stage with the constants that it reads or returns."""
        nodes = {i for i, stage in enumerate(self.number) if stage == number}
        wanted = [*returned, *(name for i in nodes for name in self.reads[i])]
        seen: set[str] = set()
        while wanted:
            name = wanted.pop()
            if name not in seen and name in self.producer and self.number[self.producer[name]] is None:
                nodes.add(self.producer[name])
                wanted += self.reads[self.producer[name]]
            seen.add(name)
        read = dict.fromkeys(name for i in sorted(nodes) for name in self.reads[i])
        inputs = [name for name in read if name in self.inputs or self.home.get(name, number) != number]
        return _Stage(number, sorted(nodes), seen & self.initializers, inputs)

    def _choose_outputs(self) -> None:
        """Let every stage return what later stages or the caller read; or else a tensor, for it must return one."""
        read = {name for stage in self.stages for name in stage.inputs} | set(self.outputs)
        for stage in self.stages:
            written = [name for i in stage.nodes for name in self.nodes[i].output]
            own = [name for name in (*written, *sorted(stage.initializers)) if self.home.get(name) == stage.number]
            own = [name for name in own if name in self.tensors]
            stage.outputs = [name for name in own if name in read] or own[-1:]


def _write(cut: _Cut, stage: _Stage, folder: Path) -> dict[str, Any]:
    """Write the model of a stage, and return its entry of the manifest."""
    file = folder / f"stage-{stage.number}.onnx"
    data = file.with_suffix(".data")
    model = _model(cut, stage)
    carry_weights(model, cut.path, data)
    file.write_bytes(model.SerializeToString(deterministic=True))
    require_valid(model, cut.path, f"stage {stage.number}")
    return {
        "stage": stage.number,
        "file": file.name,
        "sha256": {path.name: file_sha256(path) for path in (file, data) if path.exists()},
        "operators": [cut.names[i] for i in stage.nodes if cut.number[i] is not None],
        "inputs": [cut.port(name) | {"from": cut.home.get(name)} for name in stage.inputs],
        "outputs": [cut.port(name) for name in stage.outputs],
    }


def _model(cut: _Cut, stage: _Stage) -> Any:
    """The `onnx.ModelProto` of a stage; its external data are still those of the whole model."""
    whole = cut.model.graph
    model = header(cut.model)
    graph = model.graph
    graph.name = f"{whole.name} stage {stage.number}"
    graph.node.extend(cut.nodes[i] for i in stage.nodes)
    graph.initializer.extend(tensor for tensor in whole.initializer if tensor.name in stage.initializers)
    sparse = (tensor for tensor in whole.sparse_initializer if tensor.values.name in stage.initializers)
    graph.sparse_initializer.extend(sparse)
    graph.input.extend(value_info(cut.tensors[name]) for name in stage.inputs)
    graph.input.extend(info for info in whole.input if info.name in stage.initializers)
    graph.output.extend(value_info(cut.tensors[name]) for name in stage.outputs)
    inner = {name for i in stage.nodes for name in cut.nodes[i].output} - set(stage.outputs)
    graph.value_info.extend(info for info in whole.value_info if info.name in inner)
    return model
