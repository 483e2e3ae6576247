"""A mesh plan as partition specs by name, in JSON, from which JAX shardings are made.

    {"format": "shardmark/partition-specs/1",
     "model": "step",
     "mesh": {"axes": ["x", "y"], "sizes": [4, 8]},
     "inputs": {"params['w']": [["x", "y"], null]},
     "operators": {"jvp(layer0)/dot_general": {"loops": {"x": "m0", "y": null}, "results": [[["x"], null, null]]}}}

A spec has one entry per dimension: the axes of the mesh that split it, the outermost first, or null. ``inputs`` are
parameters and other arguments of the program in their order. ``loops`` names the loop of an operator that each axis
splits; ``results`` has a spec per tensor that the operator writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardmark.instances.models.as_intraop import Sharding

FORMAT = "shardmark/partition-specs/1"


def partition_specs(sharding: Sharding, solution: Sequence[int], axes: Sequence[str] = ()) -> dict[str, Any]:
    """The document of a solution; ``axes`` names the axes of the mesh, by default x, y and z, or axis0, axis1, ..."""
    sizes = sharding.mesh.sizes
    names = list(axes) or (list("xyz")[: len(sizes)] if len(sizes) <= 3 else [f"axis{i}" for i in range(len(sizes))])
    if len(set(names)) != len(sizes):
        raise ValueError(f"expected {len(sizes)} different names of axes, found {', '.join(names)}")
    model, chosen, loops = sharding.model, sharding.specs(solution), sharding.loops(solution)

    def spec(index: int) -> list[list[str] | None]:
        tensor = model.tensors[index]
        found = chosen.get(tensor.name, ((),) * len(tensor.shape))  # what nothing reads is not split
        return [[names[axis] for axis in dim] or None for dim in found]

    return {
        "format": FORMAT,
        "model": model.name,
        "mesh": {"axes": names, "sizes": list(sizes)},
        "inputs": {tensor.name: spec(index) for index, tensor in enumerate(model.tensors) if tensor.producer is None},
        "operators": {
            operator.name: {
                "loops": dict(zip(names, loops[operator.name], strict=True)),
                "results": [spec(access.tensor) for access in operator.writes],
            }
            for operator in model.operators
        },
    }


def in_shardings(document: Mapping[str, Any], step: Callable[..., Any], arguments: Sequence[Any], mesh: Any) -> Any:
    """The shardings of a step's arguments, for ``jax.jit(step, in_shardings=...)``.

    ``document``   content of the plan's ``specs.json``, or ``plan.layout.specs``
    ``step``       the function that was planned
    ``arguments``  the positional arguments of the step, or their shapes
    ``mesh``       a `jax.sharding.Mesh` with the document's axes

    Arguments that the document does not name are not split: JAX omits unused arguments from a program. Raises
    ValueError if the document names an input that the step does not have.
    """
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    names = list(inspect.signature(step).parameters)
    specs = dict(document["inputs"])

    def sharding(path: Sequence[Any], leaf: Any) -> NamedSharding:
        name = names[path[0].idx] + jax.tree_util.keystr(tuple(path[1:]))
        spec = specs.pop(name, [None] * len(leaf.shape))
        return NamedSharding(mesh, PartitionSpec(*(axes and tuple(axes) for axes in spec)))

    found = jax.tree_util.tree_map_with_path(sharding, tuple(arguments))
    foreign = [name for name in specs if not name.startswith("constant")]
    if foreign:
        raise ValueError(f"expected a step with an argument {foreign[0]}, which the specs name")
    return found
