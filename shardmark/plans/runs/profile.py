"""Measures the operators of an ONNX model on this machine with the profiler of ONNX Runtime.

The model runs as `shardmark.plans.runs.running` describes, with one thread, until the median time of a run stands.
Other programs only lengthen what the profiler measures, so an operator's share is the shortest of its times. Shares
are scaled so that together they are the median CPU time of a run, which includes the time between operators.

A stage that runs alone may be faster than its operators are here, if its weights fit into the processor's cache and
those of the whole model do not.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.plans.exports.external_data import locate_weights
from shardmark.plans.exports.onnx_graph import header, load_fixed
from shardmark.plans.runs.running import LARGE, Session, expanded, random_inputs, stable_median

SECONDS = 10.0  # most for the repeats
HALF = 0.5  # microseconds; the profiler rounds down
_MARK = "operator-"  # begins the names by which nodes are found in the profile


def profile(
    model_path: str | os.PathLike[str],
    dims: Mapping[str, int] | None = None,
    branches: Mapping[str, str] | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, float]:
    """Seconds of every operator, by name (`shardmark.instances.models.onnx_graph.names`); constants are left out.

    ``dims``      sizes of symbolic dimensions
    ``branches``  choices of branches

    Raises InputError if the file is not a model that ONNX Runtime runs, or without ONNX Runtime.
    """
    path = Path(model_path)
    model, tensors = load_fixed(path, dims or {}, branches=branches)
    locate_weights(model, path)
    names = operator_names(model.graph.node)
    tell(f"measuring the operators of {path} with ONNX Runtime")
    with tempfile.TemporaryDirectory(prefix="shardmark-") as folder:
        _expand(model, path, Path(folder) / "expanded.onnx")
        inputs = random_inputs(model, tensors)
        session = Session(model, path, Path(folder) / "profile")
        stable_median(lambda: session.run(inputs), SECONDS)
        shares = _least(session.end_profiling())
    whole = stable_median(lambda: session.run(inputs), SECONDS)
    scale = whole / sum(shares.values())
    return {names[index]: scale * share for index, share in shares.items()}


def _expand(model: Any, path: Path, scratch: Path) -> None:
    """Replace, in a model, operators without a kernel of ONNX Runtime by the nodes that it makes of them.

    Every node gets a name that begins with the index of the operator that it belongs to. The runtime writes the nodes
    to a file, without weights.
    """
    graph = model.graph
    producer = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    written = expanded(_with_weights_as_inputs(model), path, scratch)
    owner: dict[str, int] = {}
    for position, node in reversed(list(enumerate(written.graph.node))):
        index = next(found[name] for found in (producer, owner) for name in node.output if name in found)
        owner |= dict.fromkeys(node.input, index)
        node.name = f"{_MARK}{index}/{position}"
    model.ClearField("opset_import")
    model.opset_import.extend(written.opset_import)
    graph.ClearField("node")
    graph.node.extend(written.graph.node)
    stored = {tensor.name for tensor in graph.initializer}
    graph.initializer.extend(tensor for tensor in written.graph.initializer if tensor.name not in stored)


def _with_weights_as_inputs(model: Any) -> Any:
    from onnx import helper

    graph = model.graph
    copy = header(model)
    copy.ir_version = max(copy.ir_version, 4)  # from which on an initializer need not be an input
    stored = {tensor.name for tensor in graph.initializer}
    copy.graph.input.extend(info for info in graph.input if info.name not in stored)
    for tensor in graph.initializer:
        if tensor.ByteSize() > LARGE or tensor.data_location == tensor.EXTERNAL:
            copy.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            copy.graph.initializer.append(tensor)
    for field in ("node", "output", "sparse_initializer"):
        getattr(copy.graph, field).extend(getattr(graph, field))
    for node in copy.graph.node:
        node.name = ""  # the runtime refuses a name that two nodes have
    return copy


def _least(path: Path) -> dict[int, float]:
    """Shortest times of the operators in a profile, in microseconds, by index; nodes of one operator are added."""
    times = defaultdict[str, list[int]](list)
    for event in json.loads(path.read_bytes()):
        name = event["name"]
        if event["cat"] == "Node" and name.startswith(_MARK) and name.endswith("_kernel_time"):
            times[name].append(event["dur"])
    least = defaultdict[int, float](float)
    for name, found in times.items():
        least[int(name.removeprefix(_MARK).split("/")[0])] += HALF + min(found)
    return least
