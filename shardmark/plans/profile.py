"""Times of the operators of an ONNX model on this machine, from the profiler of ONNX Runtime.

The model runs as `shardmark.plans.running` describes, with one thread, until the median time of a run stands. An
operator's share is the median of its times; shares are scaled so that together they are the CPU time of a run, which
includes the time between operators and excludes that of other programs.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from instances.models.onnx_names import operator_names
from shardmark.plans.onnx_graph import fix_shapes, header, infer_types, is_large, load
from shardmark.plans.running import Session, expanded, random_inputs, standing_median

SECONDS = 10.0  # most for the repeats
HALF = 0.5  # microseconds; the profiler rounds down
_MARK = "operator-"  # begins the names by which nodes are found in the profile


def profile(
    model_path: str | os.PathLike[str],
    dims: Mapping[str, int] | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, float]:
    """Seconds of every operator, by name (`instances.models.onnx_names`); constants are left out.

    ``dims``  sizes of symbolic dimensions

    Raises InputError if the file is not a model that ONNX Runtime runs, or without ONNX Runtime.
    """
    path = Path(model_path)
    model = load(path, dims or {})
    types = infer_types(model, path)
    fix_shapes(model, types)
    inputs = random_inputs(model, types, path)
    names = operator_names(model.graph.node)
    tell(f"measuring the operators of {path} with ONNX Runtime")
    with tempfile.TemporaryDirectory(prefix="shardmark-") as folder:
        _expand(model, types, path, Path(folder) / "expanded.onnx")
        session = Session(model, path, Path(folder) / "profile")
        standing_median(lambda: session.run(inputs), SECONDS)
        shares = _medians(session.end_profiling())
    whole = standing_median(lambda: session.run(inputs), SECONDS)
    scale = whole / sum(shares.values())
    return {names[index]: scale * share for index, share in shares.items()}


def _expand(model: Any, types: Mapping[str, Any], path: Path, scratch: Path) -> None:
    """Replace, in a model, calls of functions by the nodes that ONNX Runtime makes of them, and name every node.

    A name begins with the index of the operator that the node belongs to. The runtime writes the nodes to a file,
    without weights.
    """
    graph = model.graph
    producer = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    written = expanded(_with_weights_as_inputs(model, types), path, scratch)
    owner: dict[str, int] = {}
    for position, node in reversed(list(enumerate(written.graph.node))):
        index = next(found[name] for found in (producer, owner) for name in node.output if name in found)
        owner |= dict.fromkeys(node.input, index)
        node.name = f"{_MARK}{index}/{position}"
    for field in ("opset_import", "functions"):
        model.ClearField(field)
    model.opset_import.extend(written.opset_import)
    graph.ClearField("node")
    graph.node.extend(written.graph.node)
    stored = {tensor.name for tensor in graph.initializer}
    graph.initializer.extend(tensor for tensor in written.graph.initializer if tensor.name not in stored)


def _with_weights_as_inputs(model: Any, types: Mapping[str, Any]) -> Any:
    from onnx import helper

    graph = model.graph
    copy = header(model)
    copy.ir_version = max(copy.ir_version, 4)  # from which on an initializer need not be an input
    stored = {tensor.name for tensor in graph.initializer}
    copy.graph.input.extend(info for info in graph.input if info.name not in stored)
    for tensor in graph.initializer:
        if is_large(tensor):
            copy.graph.input.append(helper.make_value_info(tensor.name, types[tensor.name]))
        else:
            copy.graph.initializer.append(tensor)
    for field in ("node", "output", "sparse_initializer"):
        getattr(copy.graph, field).extend(getattr(graph, field))
    for node in copy.graph.node:
        node.name = ""  # the runtime refuses a name that two nodes have
    return copy


def _medians(path: Path) -> dict[int, float]:
    """Median times of the operators in a profile, in some unit, by index; those of a function's nodes are added."""
    times = defaultdict[str, list[int]](list)
    for event in json.loads(path.read_bytes()):
        name = event["name"]
        if event["cat"] == "Node" and name.startswith(_MARK) and name.endswith("_kernel_time"):
            times[name].append(event["dur"])
    medians = defaultdict[int, float](float)
    for name, found in times.items():
        medians[int(name.removeprefix(_MARK).split("/")[0])] += HALF + median(found)
    return medians
