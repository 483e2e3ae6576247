"""ONNX models for tests, splits of them, and runs of whole models and of stages with ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from shardmark.instances.files.jsonfile import read_bytes, sha256
from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.plans import saving
from shardmark.plans.exports.stages import export_stages

#: Models of package onnx; the last three have weights of hundreds of megabytes.
LIGHT = sorted(
    (Path(onnx.__path__[0]) / "backend/test/data/light").glob("light_*.onnx"), key=lambda path: -path.stat().st_size
)

Arrays = Mapping[str, npt.NDArray[np.generic]]


def operators(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes that depend on an input of the model, in the order of the graph."""
    constant = {tensor.name for tensor in model.graph.initializer} | {""}
    found = []
    for node, name in zip(model.graph.node, operator_names(model.graph.node), strict=True):
        captured = any(attribute.HasField("g") for attribute in node.attribute)
        if constant.issuperset(node.input) and not captured:
            constant.update(node.output)
        else:
            found.append(name)
    return found


def equal_split(model: onnx.ModelProto, stages: int) -> dict[str, int]:
    """Stages of equal numbers of operators, by the order of the graph."""
    names = operators(model)
    return {name: index * stages // len(names) for index, name in enumerate(names)}


def random_weights(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """A light model with random weights: its own are all alike, so that its output does not depend on its input."""
    random = np.random.default_rng(seed)
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:]
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            found.graph.node.append(node)
            continue
        shape = shapes[node.input[0]]
        if len(shape) > 1:
            weights = random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        else:
            weights = random.uniform(0.5, 1.5, shape)
        found.graph.initializer.append(onnx.numpy_helper.from_array(weights.astype(np.float32), node.output[0]))
    found.ir_version = 4  # from which on an initializer need not be an input
    return found


def random_inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, npt.NDArray[np.generic]]:
    """Numbers in [0, 1) for the inputs of a model whose shapes are known."""
    random = np.random.default_rng(seed)
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for info in model.graph.input:
        if info.name not in stored:
            kind = info.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            inputs[info.name] = random.random([dim.dim_value for dim in kind.shape.dim]).astype(dtype)
    return inputs


def run(path: Path, inputs: Arrays) -> dict[str, npt.NDArray[np.generic]]:
    """The outputs of a model on those of the inputs that it reads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    read = {port.name: inputs[port.name] for port in session.get_inputs()}
    return dict(zip((port.name for port in session.get_outputs()), session.run(None, read), strict=True))


def run_stages(folder: Path, inputs: Arrays) -> dict[str, npt.NDArray[np.generic]]:
    """The outputs of the stages in a folder, each run on the inputs and what earlier stages returned."""
    manifest = json.loads((folder / "manifest.json").read_text())
    tensors = dict(inputs)
    for stage in manifest["stages"]:
        tensors |= run(folder / stage["file"], tensors)
    return {port["name"]: tensors[port["name"]] for port in manifest["outputs"]}


def plan_folder(folder: Path, model: Path, split: Mapping[str, int], dims: Mapping[str, int] | None = None) -> Path:
    """A folder with the stages of a model, and with what `plan verify` needs of plan.json."""
    folder.mkdir()
    digest = sha256(read_bytes(model))
    parts = [{"compute_us": 10.0 * (stage + 1)} for stage in range(1 + max(split.values()))]
    plan = dict.fromkeys(saving.KEYS) | {
        "format": saving.FORMAT,
        "model": {"file": str(model), "sha256": digest},
        "costs": "roofline",
        "parts": parts,
        "assignment": dict(split),
        "options": {"dims": dict(dims or {})},
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    export_stages(model, split, folder / "stages", dims=dims)
    return folder
