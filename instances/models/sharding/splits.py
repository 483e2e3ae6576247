"""The ways to split an operator over a mesh, and the layouts of the tensors that it reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.models.model import Access, Model, Operator
from shardmark.instances.models.sharding.mesh import Mesh, Splits


@dataclass(frozen=True, eq=False)
class Use:
    """An operator's use of a tensor, as far as a split of a loop splits a dimension.

    ``loop_of``  shape (dimensions,): position of the loop that runs over the dimension, -1 if none does
    ``dim_of``   shape (loops + 1,): dimension that the loop runs over, -1 if none; the last entry is for no loop
    ``numbers``  how many numbers of the tensor are used; None: all
    """

    tensor: int
    loop_of: Ints
    dim_of: Ints
    numbers: int | None = None

    def layouts(self, splits: Splits) -> Splits:
        """Layouts of the tensor, shape (strategies, axes), if the operator is split in these ways."""
        return self.dim_of[splits]


@dataclass(frozen=True, eq=False)
class Nest:
    """The loops of an operator, by position, and its uses of tensors.

    ``trips``  shape (loops,): trip counts
    ``whole``  positions of the loops that no split may cut
    """

    names: tuple[str, ...]
    trips: Ints
    whole: Ints
    reads: tuple[Use, ...]
    writes: tuple[Use, ...]

    @property
    def uses(self) -> tuple[Use, ...]:
        """Reads and writes."""
        return (*self.reads, *self.writes)

    def followed(self, use: Use, layouts: Splits, mesh: Mesh) -> Splits:
        """Splits of the loops, shape (strategies, axes), that leave a tensor in these layouts as far as they can."""
        splits = np.append(np.where(np.isin(use.loop_of, self.whole), -1, use.loop_of), -1)[layouts]
        for loop in range(len(self.names)):
            parts = np.where(splits == loop, np.array(mesh.sizes), 1).prod(axis=1)
            splits[(splits == loop) & (self.trips[loop] % parts != 0)[:, None]] = -1
        return splits

    def menu(self, mesh: Mesh) -> Splits:
        """Every split of the operator; see `menu`."""
        return menu(self.trips, [i for i in range(len(self.names)) if i not in self.whole], mesh)


def nest(model: Model, operator: Operator) -> Nest:
    """The loops of an operator and its uses of tensors."""
    names = tuple(operator.loops)
    place = {name: i for i, name in enumerate(names)}

    def use(access: Access) -> Use:
        sizes = model.tensors[access.tensor].shape
        loops = [
            place[name] if name is not None and size % max(1, operator.loops[name]) == 0 else -1
            for name, size in zip(access.dims, sizes, strict=True)
        ]
        dims = [loops.index(i) if i in loops else -1 for i in range(len(names))]
        return Use(access.tensor, np.array(loops, dtype=np.int64), np.array([*dims, -1]), access.numbers)

    return Nest(
        names=names,
        trips=np.array(list(operator.loops.values()), dtype=np.int64),
        whole=np.array([place[name] for name in operator.whole if name in place], dtype=np.int64),
        reads=tuple(map(use, operator.reads)),
        writes=tuple(map(use, operator.writes)),
    )


def menu(trips: Ints, splittable: Sequence[int], mesh: Mesh) -> Splits:
    """Every way to give each mesh axis a position of ``splittable`` whose trip count it divides, or none.

    Shape (strategies, axes), in lexicographic order: nothing split comes first.
    """
    choices = np.array([-1, *splittable], dtype=np.int64)
    axes = len(mesh.sizes)
    splits = choices[np.indices((len(choices),) * axes).reshape(axes, -1).T]
    divides = np.ones(len(splits), dtype=bool)
    for loop in splittable:
        parts = np.where(splits == loop, np.array(mesh.sizes), 1).prod(axis=1)
        divides &= trips[loop] % parts == 0
    return splits[divides]
