"""Accesses of all operators of ONNX: splitting a loop splits what an operator reads and writes as they say."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from itertools import islice

import numpy as np
import onnx
import pytest
from effort import THOROUGH, draws
from onnx.reference import ReferenceEvaluator

from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_file import read_onnx

#: Sums of products: if a loop is missing from the result, halves add up to it.
LINEAR = {"Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul", "ReduceSum"}
#: Shapes are attributes or values there, so that no half can be run as it is, or numbers are random.
SHAPED = {
    "Dropout",
    "Expand",
    "Flatten",
    "Pad",
    "Reshape",
    "Resize",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Trilu",
    "Unsqueeze",
}
#: The same of single loops: groups and directions are attributes, and a half of a causal mask needs its place.
FIXED = {("ConvTranspose", "g"), ("GRU", "d"), ("LSTM", "d"), ("RNN", "d"), ("Gather", "v")}
#: Reasons to refuse a model: dynamic shapes, values that are no tensor of numbers, control flow, nothing to compute.
REFUSED = (
    "expected a known number of dimensions",
    "expected a known size of dimension",
    "expected a tensor of numbers, found data type string",
    "expected a tensor, found",
    "expected no other control flow than",
    "expected a number of rounds that is known",
    "expected operator set 9 or newer for Scan",
    "expected a node whose results follow from an input",
)
#: Modules of pools, which the reference computes in Python; a third module, of maxima, is as slow and is not left out.
SLOW = {"averagepool", "lppool"}
#: The reference does not run all data types of these.
UNRUN = {"Cast", "CastLike"}


@cache
def collected():
    """onnx's own test models: importing a module of them makes its models, which for two kinds of pools takes 3 s."""
    from onnx.backend.test.case import node

    modules = {module.name for module in pkgutil.iter_modules(node.__path__)} - (set() if THOROUGH else SLOW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(modules):
            importlib.import_module(f"{node.__name__}.{name}")
        return [case for case in node._NodeTestCases if case.model is not None]


def cases():
    """Yield onnx's own test models with one node: name, model, inputs."""
    for case in collected():
        if not case.data_sets:
            continue
        nodes = case.model.graph.node
        inputs = case.data_sets[0][0]
        plain = len(nodes) == 1 and not nodes[0].domain and not any(isinstance(value, list) for value in inputs)
        if plain and nodes[0].op_type not in SHAPED and "blocked" not in case.name:
            names = [value.name for value in case.model.graph.input]
            yield case.name, case.model, dict(zip(names, map(np.asarray, inputs), strict=False))


def run(model, values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = ReferenceEvaluator(model).run(None, values)
    return dict(zip((value.name for value in model.graph.output), results, strict=True))


def free_loops(operator, node):
    """Loops that may be cut in half, of which something that is read shows the halves."""
    causal = any(attribute.name == "is_causal" and attribute.i for attribute in node.attribute)
    for loop, trips in operator.loops.items():
        fixed = (node.op_type, loop) in FIXED or (causal and loop == "m")
        seen = any(loop in access.dims for access in operator.reads)
        if seen and trips and trips % 2 == 0 and loop not in operator.whole and not fixed:
            yield loop


def half(value, access, loop, which):
    for axis, dim in enumerate(access.dims if access else ()):
        if dim == loop:
            value = np.split(value, 2, axis=axis)[which]
    return value


def whole(halves, access, loop, linear):
    """The result that halves make; None if it is neither parts side by side nor a sum."""
    if loop in access.dims:
        return np.concatenate(halves, axis=access.dims.index(loop))
    return halves[0] + halves[1] if linear else None


@pytest.mark.gate
def test_halves_of_every_loop_that_may_be_cut_make_the_whole(tmp_path):
    checked = dict[str, int]()
    path = tmp_path / "model.onnx"
    for name, model, values in islice(cases(), 0, None, draws(4, 4, 1)):
        onnx.save(model, path)
        try:
            found = read_onnx(path)
        except InputError:  # strings, sequences and sizes that depend on values
            continue
        node = model.graph.node[0]
        if len(found.operators) != 1 or node.op_type == "CastLike":
            continue
        (operator,) = found.operators
        reads = {found.tensors[access.tensor].name: access for access in operator.reads}
        loops = list(free_loops(operator, node))
        try:
            expected = run(model, values) if loops else {}
        except (TypeError, ValueError):  # a data type that the reference cannot compute with
            continue
        for loop in loops:
            parts = [{x: half(value, reads.get(x), loop, which) for x, value in values.items()} for which in (0, 1)]
            results = [run(model, part) for part in parts]
            for access in operator.writes:
                made = found.tensors[access.tensor].name
                linear = node.op_type in LINEAR and len(operator.reads) <= 2  # biases would be added twice
                joined = whole([result[made] for result in results], access, loop, linear)
                if joined is not None:
                    error = f"{name}: loop {loop}"
                    np.testing.assert_allclose(
                        *(x.astype(np.float64) for x in (joined, expected[made])), 1e-3, 1e-4, err_msg=error
                    )
                    checked[node.op_type] = checked.get(node.op_type, 0) + 1
    assert sum(checked.values()) > draws(120, 120, 500)
    assert {"Attention", "Einsum", "Gemm", "LayerNormalization", "MatMul", "QLinearMatMul"} <= checked.keys()


@pytest.mark.gate
def test_every_operator_of_the_standard_reads_or_is_refused_in_one_sentence(tmp_path):
    """A third of onnx's own test models, a node each: 9 of 10 have static shapes and no control flow."""
    models = {case.name: case.model for case in collected()}
    models = {name: models[name] for name in sorted(models)[::3]}
    refused = []
    path = tmp_path / "case.onnx"
    for name, model in models.items():
        onnx.save(model, path)
        try:
            found = read_onnx(path)
        except InputError as error:
            refused.append((name, str(error)))
            continue
        for operator in found.operators:
            for access in (*operator.reads, *operator.writes):
                assert len(access.dims) == len(found.tensors[access.tensor].shape), name
                assert {*access.dims} - {None} <= operator.loops.keys(), name
            assert operator.whole <= operator.loops.keys(), name
    assert len(refused) < len(models) / 10
    assert not [line for line in refused if "\n" in line[1]]
    assert not [line for line in refused if not any(reason in line[1] for reason in REFUSED)]
