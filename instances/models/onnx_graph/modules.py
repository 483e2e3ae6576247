"""The module that a node of an ONNX graph belongs to, as exporters leave it.

PyTorch's exporter writes the modules around a node into its metadata, ``pkg.torch.onnx.name_scopes`` as a list and
``namespace`` as a text, each with whole paths and the operation at the end. PyTorch's older exporter, Keras and
TensorFlow put the path into the node's name: ``/model/layers.2/self_attn/MatMul``. Optimisers add nodes without any.

PyTorch's exporter also lists all parameters of the program, in the metadata of the graph. A parameter from which a
constant was folded, such as that of position embeddings, is named in the metadata of the constant's type.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import Any

from shardmark.instances.models.model import Model

Levels = tuple[str, ...]

_SCOPES, _NAMESPACE = "pkg.torch.onnx.name_scopes", "namespace"
_SIGNATURE, _FOLDED = "pkg.torch.export.ExportedProgram.graph_signature", "pkg.onnxscript.optimizer.folded_from"


def keep_only_modules(node: Any) -> None:
    """Drop the metadata of a node except for the entry that has its modules."""
    found = _entry(node)
    node.ClearField("metadata_props")
    if found is not None:
        node.metadata_props.add(key=found[0], value=found[1])


def module_of(node: Any, name: str) -> Levels:
    """The levels of the module path of a node with this name, outermost first; () if the file does not tell.

    Joined by dots they are the path: ``("model", "layers.2", "self_attn")``.
    """
    key, value = _entry(node) or ("", "")
    if key == _SCOPES:
        return _levels(_listed(f"{value.rpartition(',')[0]}]"))
    if key == _NAMESPACE:
        return _levels(tuple(part.partition(": ")[0] for part in value.split("/")[:-1]))
    return _between_slashes(name.rpartition("/")[0])


def weights_of(graph: Any, model: Model, sources: Callable[[str], Iterable[str]]) -> dict[str, list[int]]:
    """For every parameter of the PyTorch program, the model's tensors that hold it or follow from it; {} if not told.

    ``sources`` has the stored tensors from which a constant follows.
    """
    signature = next((entry.value for entry in graph.metadata_props if entry.key == _SIGNATURE), "")
    found: dict[str, list[int]] = {name: [] for name in re.findall(r"\bPARAMETER target='([^']+)'", signature)}
    entries = ((value.name, entry) for value in graph.value_info for entry in value.metadata_props)
    folded = {name: _listed(entry.value) for name, entry in entries if entry.key == _FOLDED}
    for index, tensor in enumerate(model.tensors):
        stored = sources(tensor.name) if tensor.parameter and found else ()
        for name in {part for source in stored for part in (source, *folded.get(source, ()))} & found.keys():
            found[name].append(index)
    return found


def fill_gaps(model: Model) -> None:
    """Give operators without a module the innermost one around the next operators with modules before and after."""
    given = [operator.module for operator in model.operators]
    if all(given) or not any(given):
        return
    edges = list(model.edges())  # by head, so that tails are complete
    before = _common(given, edges)
    after = _common(given, sorted(((head, tail) for tail, head in edges), reverse=True))
    for index, operator in enumerate(model.operators):
        if not operator.module and before[index] and after[index]:
            model.operators[index] = replace(operator, module=_shared(before[index], after[index]))


def _common(given: Sequence[Levels], edges: Iterable[tuple[int, int]]) -> list[Levels]:
    """For every operator its module, or else what those that lead to it have in common; () if there is nothing."""
    found = [levels or None for levels in given]
    for tail, head in edges:
        there, here = found[tail], found[head]
        if there is not None and not given[head]:
            found[head] = there if here is None else _shared(here, there)
    return [levels or () for levels in found]


def _shared(one: Levels, other: Levels) -> Levels:
    """The levels at the beginning that two modules have in common."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return tuple(level for level, _ in same)


def _entry(node: Any) -> tuple[str, str] | None:
    """Key and value of the metadata that has a node's modules."""
    entries = {entry.key: entry.value for entry in node.metadata_props}
    return next(((key, entries[key]) for key in (_SCOPES, _NAMESPACE) if key in entries), None)


@cache
def _listed(text: str) -> tuple[str, ...]:
    """The texts of a list as Python writes it; () for anything else."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(path, str) for path in found) else ()


@cache
def _levels(paths: tuple[str, ...]) -> Levels:
    """The levels of the last of some module paths; the paths before it say where a level ends."""
    levels, known = list[str](), ""
    last = paths[-1] if paths else ""
    for path in paths:
        if path != known and (path == last or last.startswith(f"{path}.")):
            levels.append(path.removeprefix(f"{known}."))
            known = path
    return tuple(levels)


@cache
def _between_slashes(path: str) -> Levels:
    """The levels of a path in a name; PyTorch repeats the name of a container in those of its children."""
    levels = tuple(filter(None, path.split("/")))
    pairs = zip(("", *levels), levels, strict=False)
    return tuple(level.removeprefix(f"{outer}.") for outer, level in pairs)
