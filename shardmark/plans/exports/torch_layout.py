"""A layout as a pipeline of PyTorch modules: the content of ``layout.torch.json``.

    {"format": "shardmark/torch-layout/1",
     "model": "llama.onnx",
     "schedule": "1F1B",
     "batch": 16, "microbatch": 2, "microbatches": 8,
     "split_points": ["model.layers.1"],
     "stages": [
       {"modules": ["model.embed_tokens", "model.layers.0"], "recomputed": [],
        "data_parallel": 2, "tensor_parallel": 1},
       {"modules": ["model.layers.1", "model.norm", "lm_head"], "recomputed": ["model.layers.1"],
        "data_parallel": 2, "tensor_parallel": 1}],
     "unplaced": {}}

``model``         name of the model's file
``schedule``      "1F1B"; null if the model is served
``batch``         samples per step, which are ``microbatches`` times ``microbatch``; the replicas of a stage share them
``split_points``  for every stage but the first, the module with which it begins: a ``SplitPoint.BEGINNING`` of
                  ``torch.distributed.pipelining``
``modules``       all modules of the stage; the lists of all stages are ``module_fqns_per_model_part`` of TorchTitan
``recomputed``    modules to wrap in ``torch.utils.checkpoint``
``data_parallel``, ``tensor_parallel``  replicas of the stage, and devices of each
``unplaced``      modules with parameters that are in no stage's ``modules``, each with the reason

A module of which the file has only a constant, as the exporter folded it for fixed inputs (position embeddings), is in
the first stage that reads the constant. Operators outside of these modules, such as those of a mask, run where the
model's code has them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.model import Model
from shardmark.instances.models.reader import begins_as_onnx
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.problem import AGAIN
from shardmark.plans.modules import enclosing, held_modules, joined

FORMAT = "shardmark/torch-layout/1"


def has_modules(source: str | os.PathLike[str], model: Model) -> bool:
    """True if a model, read from ``source``, names the PyTorch modules of its operators."""
    return begins_as_onnx(source) and any(operator.module for operator in model.operators)


def require_modules(source: str | os.PathLike[str], model: Model) -> None:
    """InputError unless a model names the PyTorch modules of its operators, and has no loops or branches."""
    if model.unrolled:
        raise InputError(source, "", "expected a model without loops and branches to export torch")
    if not has_modules(source, model):
        expected = "expected an ONNX model with PyTorch modules in the metadata of its nodes to export torch"
        raise InputError(source, "", f"{expected}, found none; torch.onnx.export(..., dynamo=True) writes them")


def torch_layout(layout: CertifiedLayout) -> dict[str, Any]:
    """The document of a layout.

    Raises InputError if the model's file names no modules, if stages run it in another order than the file, or if one
    recomputes a part of a module.
    """
    require_modules(layout.source, layout.model)
    _require_order(layout)
    block_of = _block_of(layout)
    held = [part.modules for part in held_modules(layout.model, block_of, len(layout.blocks))]
    modules, recomputed = [], []
    for number in range(len(layout.stages)):
        blocks = {block for block, stage in enumerate(layout.solution["stage"]) if stage == number}
        again = {block for block in blocks if layout.solution["configuration"][block].startswith(AGAIN)}
        modules.append(_modules(layout, block_of, held, blocks))
        recomputed.append(_modules(layout, block_of, held, again))
        _require_whole(layout, block_of, again, recomputed[-1])
    split_points, unplaced = _split_points(layout, block_of, modules), _place_folded(layout, block_of, modules)
    return {
        "format": FORMAT,
        "model": layout.source.name,
        **layout.run.schedule,
        "split_points": split_points,
        "stages": [
            {
                "modules": modules[number],
                "recomputed": recomputed[number],
                "data_parallel": stage.replicas,
                "tensor_parallel": stage.tensor,
            }
            for number, stage in enumerate(layout.stages)
        ],
        "unplaced": unplaced,
    }


def _place_folded(layout: CertifiedLayout, block_of: Sequence[int], modules: Sequence[list[str]]) -> dict[str, str]:
    """Add modules of which the file has only constants to the lists ``modules``.

    Returns the other modules with parameters that are in no list, each with the reason.
    """
    model, readers = layout.model, layout.model.readers()
    begins: dict[str, int] = {}  # first operator of every module
    for index, operator in enumerate(model.operators):
        for path in enclosing(operator.module):
            begins.setdefault(joined(path), index)
    held = {name for names in modules for name in names}
    owners: dict[str, list[int]] = {}
    for weight, tensors in model.weights.items():
        levels = weight.split(".")[:-1]
        if held.isdisjoint(".".join(levels[:depth]) for depth in range(1, len(levels) + 1)):
            owners.setdefault(".".join(levels), []).extend(reader for tensor in tensors for reader in readers[tensor])
    why: dict[str, str] = {}
    for owner, users in owners.items():
        if users and owner and owner not in begins:
            begins[owner] = min(users)
            mine = modules[layout.solution["stage"][block_of[min(users)]]]
            mine.append(owner)
            mine.sort(key=begins.__getitem__)
        else:
            inside = any(name.startswith(f"{owner}." if owner else "") for name in held)
            several = "beside modules of the stages it has weights of its own" if inside else "several stages run it"
            why[owner] = several if users else "nothing in the file reads its weights"
    return why


def _require_order(layout: CertifiedLayout) -> None:
    """InputError if stages run independent blocks in another order than the file, which PyTorch splits in its order."""
    placed = list(zip(layout.blocks, layout.solution["stage"], strict=True))
    for (block, stage), (later, earlier) in pairwise(placed):
        if earlier < stage:
            expected = "expected stages in the order of the file to export torch"
            where = f"{later.name} is in stage {earlier}, behind {block.name} in stage {stage}"
            raise InputError(layout.source, "", f"{expected}; {where}")


def _block_of(layout: CertifiedLayout) -> list[int]:
    """The block in which a PyTorch pipeline runs every operator.

    It is the operator's own, or, for one that several blocks share and that the model runs late, the block of the one
    before.
    """
    own = {index: number for number, block in enumerate(layout.blocks) for index in block.operators}
    stage_of, found = layout.solution["stage"], list[int]()
    for index in range(len(own)):
        late = bool(found) and stage_of[own[index]] < stage_of[found[-1]]
        found.append(found[-1] if late else own[index])
    return found


def _modules(
    layout: CertifiedLayout, block_of: Sequence[int], held: Sequence[Sequence[str]], blocks: Collection[int]
) -> list[str]:
    """The modules ``held`` by blocks, without those that have operators elsewhere, and those inside of others."""
    pairs = zip(layout.model.operators, block_of, strict=True)
    outside = {joined(path) for x, block in pairs if block not in blocks for path in enclosing(x.module)}
    names = dict.fromkeys(name for block in sorted(blocks) for name in held[block] if name not in outside)
    return [name for name in names if not any(name.startswith(f"{other}.") for other in names)]


def _require_whole(
    layout: CertifiedLayout, block_of: Sequence[int], blocks: Collection[int], names: Collection[str]
) -> None:
    """InputError if products that are computed again, those of ``blocks``, are outside of the modules ``names``."""
    for operator, block in zip(layout.model.operators, block_of, strict=True):
        inside = any(joined(path) in names for path in enclosing(operator.module))
        if block in blocks and operator.multiply_adds and not inside:
            where = f"a part of module {joined(operator.module) or 'of the whole model'} (operator {operator.name!r})"
            expected = "expected a layout that recomputes whole modules to export torch"
            raise InputError(layout.source, "", f"{expected}; it recomputes only {where}")


def _split_points(layout: CertifiedLayout, block_of: Sequence[int], modules: Sequence[Sequence[str]]) -> list[str]:
    """The modules with which the stages after the first begin: the one of its list, or else the outermost new one."""
    begun, found = set[str](), list[str]()
    for operator, block in zip(layout.model.operators, block_of, strict=True):
        levels = [joined(path) for path in enclosing(operator.module)]
        stage = layout.solution["stage"][block]
        if stage > len(found):
            fresh = [level for level in levels if level not in begun]
            found.append(next((level for level in fresh if level in modules[stage]), fresh[0]))
        begun.update(levels)
    return found
