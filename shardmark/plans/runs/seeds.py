"""Seeds for random operators that have none, so that two runs of a model can be compared.

An operator's seed follows from the name of its first output, which a stage and the whole model share.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.plans.exports.onnx_graph import STANDARD

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
SEEDS = 1 << 20  # that a float32 tells apart


def seed_random_operators(model: Any) -> list[str]:
    """Give every random operator of an `onnx.ModelProto` that has no seed one; return their names.

    Calls of functions that could not be inlined are operators, random if the body is.
    """
    never = set(_false_tensors(model.graph))
    functions = {(function.domain, function.name): _seed_all(function.node, never) for function in model.functions}
    found = set(_seed_all(model.graph.node, never))
    names = operator_names(model.graph.node)
    calls = (index for index, node in enumerate(model.graph.node) if functions.get((node.domain, node.op_type)))
    return [names[index] for index in sorted(found.union(calls))]


def _seed_all(nodes: Sequence[Any], never: set[str]) -> list[int]:
    """Seed the random nodes without a seed, and return their indices; ``never`` are tensors of false."""
    found = []
    for index, node in enumerate(nodes):
        if _is_random(node, never) and not any(attribute.name == "seed" for attribute in node.attribute):
            found.append(index)
            _seed(node)
    return found


def _is_random(node: Any, never: set[str]) -> bool:
    """True also for a Dropout that may be in training, as far as the graph tells."""
    if node.domain not in STANDARD:
        return False
    training = node.input[2] if node.op_type == "Dropout" and len(node.input) > 2 else ""
    return node.op_type in RANDOM or bool(training and training not in never)


def _false_tensors(graph: Any) -> Iterator[str]:
    """Names of the stored tensors that are false."""
    from onnx import TensorProto, numpy_helper

    constants = ((node.output[0], x.t) for node in graph.node if node.op_type == "Constant" for x in node.attribute)
    for name, tensor in (*((tensor.name, tensor) for tensor in graph.initializer), *constants):
        inside = tensor.data_type == TensorProto.BOOL and tensor.data_location != TensorProto.EXTERNAL
        if inside and not numpy_helper.to_array(tensor).any():
            yield name


def _seed(node: Any) -> None:
    from onnx import helper

    seed = zlib.crc32(node.output[0].encode()) % SEEDS
    node.attribute.append(helper.make_attribute("seed", seed if node.op_type == "Dropout" else float(seed)))
