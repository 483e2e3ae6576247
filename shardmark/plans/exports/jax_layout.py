"""A layout as partition specs by stage, from which JAX shardings are made: the content of ``specs.json``.

    {"format": "shardmark/jax-layout/1",
     "model": "step.mlir",
     "schedule": "1F1B",
     "batch": 16, "microbatch": 2, "microbatches": 8,
     "stages": [
       {"layers": ["layer0", "layer1"], "recomputed": ["layer1"],
        "mesh": {"axes": ["data", "tensor"], "sizes": [2, 4]},
        "inputs": {"params['layers'][0]['up']": [null, ["tensor"]], "batch['tokens']": [["data"], null]}}]}

``schedule``  "1F1B"; null if the model is served
``batch``     samples per step, which are ``microbatches`` times ``microbatch``; the replicas of a stage share them
``layers``    the blocks of the stage, in order; ``recomputed`` those to wrap in ``jax.checkpoint``
``mesh``      replicas of the stage, and devices of each
``inputs``    the arguments of the step that the stage reads, as in the specs of a plan on a mesh: see
              `shardmark.plans.partition_specs`, whose ``in_shardings`` takes a stage. The state of the optimiser, and
              gradients, are split as their parameters are
"""

from __future__ import annotations

import os
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.model import Model
from shardmark.instances.models.reader import begins_as_onnx
from shardmark.plans.cluster.certified_layout import CertifiedLayout

FORMAT = "shardmark/jax-layout/1"
AXES = ("data", "tensor")


def require_step(source: str | os.PathLike[str], model: Model) -> None:
    """InputError unless a model, read from ``source``, is a program whose arguments JAX can shard."""
    if begins_as_onnx(source):
        raise InputError(source, "", "expected a StableHLO program to export specs; an ONNX model has none for JAX")
    if model.unrolled:
        expected = "expected a program without loops and branches to export specs, as JAX shards all rounds alike"
        raise InputError(source, "", f"{expected}: lower it with jax.lax.scan(..., unroll=True)")


def jax_layout(layout: CertifiedLayout) -> dict[str, Any]:
    """The document of a layout. InputError if its model is no such program."""
    require_step(layout.source, layout.model)
    return {
        "format": FORMAT,
        "model": layout.source.name,
        **layout.run.schedule,
        "stages": [
            {
                "layers": list(stage.blocks),
                "recomputed": list(stage.recomputed),
                "mesh": {"axes": list(AXES), "sizes": [stage.replicas, stage.tensor]},
                "inputs": _inputs(layout, number),
            }
            for number, stage in enumerate(layout.stages)
        ],
    }


def _inputs(layout: CertifiedLayout, stage: int) -> dict[str, list[list[str] | None]]:
    """The specs of the arguments that a stage reads; the samples of its microbatches are divided over replicas."""
    data, tensor = ([axis] for axis in AXES)
    found: dict[str, list[list[str] | None]] = {}
    for block, home in enumerate(layout.solution["stage"]):
        if home != stage:
            continue
        splits = layout.splits[block]
        for index in layout.blocks[block].operators:
            for access in layout.model.operators[index].reads:
                read = layout.model.tensors[access.tensor]
                if read.producer is None and read.parameter:
                    found.setdefault(read.name, [tensor if split else None for split in splits[read.name]])
                elif read.producer is None:
                    samples = read.shape[:1] == (layout.run.microbatch,)
                    found.setdefault(
                        read.name, [data if samples and dim == 0 else None for dim in range(len(read.shape))]
                    )
    return found
