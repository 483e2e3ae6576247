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
        "data_parallel": 2, "tensor_parallel": 1}]}

``model``         name of the model's file
``schedule``      "1F1B"; null if the model is served
``batch``         samples per step, which are ``microbatches`` times ``microbatch``; the replicas of a stage share them
``split_points``  for every stage but the first, the module with which it begins: a ``SplitPoint.BEGINNING`` of
                  ``torch.distributed.pipelining``
``modules``       all modules of the stage; the lists of all stages are ``module_fqns_per_model_part`` of TorchTitan
``recomputed``    modules to wrap in ``torch.utils.checkpoint``
``data_parallel``, ``tensor_parallel``  replicas of the stage, and devices of each

Operators outside of these modules, such as those of a mask, run where the model's code has them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.model import Model
from shardmark.instances.models.reader import begins_as_onnx
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.problem import AGAIN
from shardmark.plans.modules import enclosing, held_modules, joined

FORMAT = "shardmark/torch-layout/1"


def require_modules(source: str | os.PathLike[str], model: Model) -> None:
    """InputError unless a model, read from ``source``, names the PyTorch modules of its operators."""
    if not begins_as_onnx(source):
        expected = "expected an ONNX model to export torch; a StableHLO program has no PyTorch modules"
        raise InputError(source, "", expected)
    if not any(operator.module for operator in model.operators):
        expected = "expected PyTorch modules in the metadata of nodes to export torch, found none"
        raise InputError(source, "", f"{expected}; torch.onnx.export(..., dynamo=True) writes them")


def torch_layout(layout: CertifiedLayout) -> dict[str, Any]:
    """The document of a layout.

    Raises InputError if the model's file names no modules, or if a stage or what it recomputes is not made of modules.
    """
    require_modules(layout.source, layout.model)
    run, stage_of = layout.run, layout.solution["stage"]
    held = [part.modules for part in held_modules(layout.model, _block_of(layout), len(layout.blocks))]
    modules = [
        _modules(layout, held, [block for block, stage in enumerate(stage_of) if stage == number])
        for number in range(len(layout.stages))
    ]
    stages = [
        {
            "modules": modules[number],
            "recomputed": _recomputed(layout, held, number),
            "data_parallel": stage.replicas,
            "tensor_parallel": stage.tensor,
        }
        for number, stage in enumerate(layout.stages)
    ]
    return {
        "format": FORMAT,
        "model": layout.source.name,
        "schedule": "1F1B" if run.training else None,
        "batch": run.batch,
        "microbatch": run.microbatch,
        "microbatches": run.microbatches,
        "split_points": _split_points(layout, modules),
        "stages": stages,
    }


def _modules(layout: CertifiedLayout, held: Sequence[Sequence[str]], blocks: Sequence[int]) -> list[str]:
    """The modules ``held`` by blocks, without those that have operators elsewhere, and those inside of others."""
    operators, part_of = layout.model.operators, [1] * len(layout.model.operators)
    for index in (index for block in blocks for index in layout.blocks[block].operators):
        part_of[index] = 0
    outside = {joined(p) for x, part in zip(operators, part_of, strict=True) if part for p in enclosing(x.module)}
    names = dict.fromkeys(name for block in blocks for name in held[block] if name not in outside)
    return [name for name in names if not any(name.startswith(f"{other}.") for other in names)]


def _block_of(layout: CertifiedLayout) -> list[int]:
    """The block of every operator."""
    found = {index: number for number, block in enumerate(layout.blocks) for index in block.operators}
    return [found[index] for index in range(len(layout.model.operators))]


def _recomputed(layout: CertifiedLayout, held: Sequence[Sequence[str]], stage: int) -> list[str]:
    """The modules that a stage recomputes; InputError if products that it recomputes are outside of them."""
    chosen = zip(layout.solution["stage"], layout.solution["configuration"], strict=True)
    blocks = [block for block, choice in enumerate(chosen) if choice[0] == stage and choice[1].startswith(AGAIN)]
    names = _modules(layout, held, blocks)
    for index in (index for block in blocks for index in layout.blocks[block].operators):
        operator = layout.model.operators[index]
        if operator.multiply_adds and not any(joined(path) in names for path in enclosing(operator.module)):
            expected = f"expected stage {stage} to recompute whole modules to export torch"
            raise InputError(layout.source, "", f"{expected}; it recomputes only a part of {_where(layout, index)}")
    return names


def _split_points(layout: CertifiedLayout, modules: Sequence[Sequence[str]]) -> list[str]:
    """The modules with which the stages after the first begin; InputError if one begins elsewhere."""
    operators = layout.model.operators
    stage_of = [layout.solution["stage"][block] for block in _block_of(layout)]
    begun, found = set[str](), list[str]()
    for index, (operator, stage) in enumerate(zip(operators, stage_of, strict=True)):
        levels = [joined(path) for path in enclosing(operator.module)]
        if index and stage < stage_of[index - 1]:
            expected = "expected stages of consecutive operators to export torch"
            late = (
                f"{_where(layout, index)} is in stage {stage}, and runs after operators of stage {stage_of[index - 1]}"
            )
            raise InputError(layout.source, "", f"{expected}; {late}")
        if stage > len(found):
            fresh = [level for level in levels if level not in begun]
            if not fresh:
                expected = f"expected stage {stage} to begin with a module to export torch"
                raise InputError(layout.source, "", f"{expected}; it begins inside of {_where(layout, index)}")
            found.append(next((level for level in fresh if level in modules[stage]), fresh[0]))
        begun.update(levels)
    return found


def _where(layout: CertifiedLayout, index: int) -> str:
    """The module and the name of an operator."""
    operator = layout.model.operators[index]
    return f"module {joined(operator.module) or 'of the whole model'} (operator {operator.name!r})"
