"""Groups of operators with one common choice of strategy: cheap operators follow a neighbour, as in compilers.

Products and convolutions choose freely, and so do inputs of the model and parameters. Any other operator is cheap
compared with moving its tensors, so it is split as its *lead* is: the tensor it reads that has all dimensions
of its output, and of several the one that the longest chain of operators leads to. An operator that writes much more
than it reads (a broadcast, a constant) has no lead and joins the first operator that reads its output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.models.model import Model
from shardmark.instances.models.sharding.mesh import Mesh, Splits
from shardmark.instances.models.sharding.splits import Nest, Use, menu

#: Strategies of one group. Of more, the fastest are kept, of a tensor the smallest, and the one that splits nothing.
MOST_STRATEGIES = 100
#: An operator joins its reader if it reads at most this share of the numbers that it writes.
EXPANDING = 0.5

#: Time of an operator (its index) for each of its splits: shape (strategies,).
Price = Callable[[int, Splits], Floats]


@dataclass(eq=False)
class Group:
    """Operators and tensors with one choice among ``size`` strategies.

    ``splits``   of every operator, by index, the loops that each strategy splits: shape (size, axes)
    ``layouts``  of every tensor, by index, that these operators write, or of the one without a producer that they
                 follow, the dimensions that each strategy splits: shape (size, axes)
    """

    size: int
    splits: dict[int, Splits] = field(default_factory=dict)
    layouts: dict[int, Splits] = field(default_factory=dict)


def grouped(model: Model, nests: Sequence[Nest], mesh: Mesh, price: Price) -> list[Group]:
    """Partition the operators of a model, and the tensors without a producer that they read, into groups."""
    return _Grouping(model, nests, mesh, price).groups


class _Grouping:
    def __init__(self, model: Model, nests: Sequence[Nest], mesh: Mesh, price: Price) -> None:
        self.model, self.nests, self.mesh, self.price = model, nests, mesh, price
        self.groups: list[Group] = []
        self.group_of: dict[int, Group] = {}  # of every tensor
        self.chooses: dict[int, Group] = {}  # of every operator
        self.depth = [0] * len(model.tensors)
        self.readers = model.readers()
        joining = [index for index in range(len(nests)) if self._visit(index)]
        for index in reversed(joining):
            self._join_reader(index)

    def _visit(self, index: int) -> bool:
        """Put an operator into a group; True if it is to join its first reader."""
        nest = self.nests[index]
        for use in nest.reads:
            if self.model.tensors[use.tensor].producer is None and use.tensor not in self.group_of:
                self._add_source(use.tensor)
        depth = 1 + max((self.depth[use.tensor] for use in nest.reads), default=0)
        for use in nest.writes:
            self.depth[use.tensor] = depth
        if not self.model.operators[index].multiply_adds:
            for use in self._leads(index):
                group = self.group_of[use.tensor]
                splits = nest.followed(use, group.layouts[use.tensor], self.mesh)
                if (splits >= 0).any() or not self._wanted(nest):
                    self._add(index, group, splits)
                    return False
            if self._expands(index):
                return True
        splits = self._head_menu(index)
        group = Group(len(splits))
        self.groups.append(group)
        self._add(index, group, splits)
        return False

    def _leads(self, index: int) -> list[Use]:
        """The reads that an operator can follow, the best one first."""
        operator, nest = self.model.operators[index], self.nests[index]
        if operator.fused:
            return list(nest.reads[:1])
        wanted = self._wanted(nest)
        found = [u for u in nest.reads if u.tensor in self.group_of and all(u.dim_of[loop] >= 0 for loop in wanted)]
        return sorted(found, key=lambda use: -self.depth[use.tensor])

    def _wanted(self, nest: Nest) -> list[int]:
        """The loops over outputs that some axis of the mesh can split."""
        loops = {int(loop) for use in nest.writes for loop in use.loop_of if loop >= 0} - set(nest.whole.tolist())
        return [loop for loop in sorted(loops) if any(nest.trips[loop] % size == 0 for size in self.mesh.sizes)]

    def _expands(self, index: int) -> bool:
        operator, tensors = self.model.operators[index], self.model.tensors
        if len(operator.writes) != 1 or not self.readers[operator.writes[0].tensor]:
            return False
        read = sum(tensors[access.tensor].numbers for access in operator.reads if access.tensor in self.group_of)
        return read <= EXPANDING * tensors[operator.writes[0].tensor].numbers

    def _join_reader(self, index: int) -> None:
        (written,) = self.nests[index].writes
        reader = self.readers[written.tensor][0]
        group = self.chooses[reader]
        use = next(use for use in self.nests[reader].reads if use.tensor == written.tensor)
        layouts = use.layouts(group.splits[reader])
        self._add(index, group, self.nests[index].followed(written, layouts, self.mesh))

    def _add(self, index: int, group: Group, splits: Splits) -> None:
        group.splits[index] = splits
        self.chooses[index] = group
        for use in self.nests[index].writes:
            group.layouts[use.tensor] = use.layouts(splits)
            self.group_of[use.tensor] = group

    def _add_source(self, tensor: int) -> None:
        """A group for a tensor without a producer, which can be split as its readers can be."""
        dims = set()
        for reader in self.readers[tensor]:
            nest = self.nests[reader]
            for use in nest.reads:
                if use.tensor == tensor:
                    dims |= {i for i, loop in enumerate(use.loop_of) if loop >= 0 and loop not in nest.whole}
        layouts = menu(np.array(self.model.tensors[tensor].shape, dtype=np.int64), sorted(dims), self.mesh)
        layouts = layouts[_first(-self.mesh.parts(layouts).astype(np.float64))]
        group = Group(len(layouts), layouts={tensor: layouts})
        self.groups.append(group)
        self.group_of[tensor] = group

    def _head_menu(self, index: int) -> Splits:
        """The splits of an operator that chooses: of those that look alike from outside, the fastest."""
        nest = self.nests[index]
        splits = nest.menu(self.mesh)
        times = self.price(index, splits)
        fastest = np.argsort(times, kind="stable")
        seen = np.hstack([splits[:, :0], *(use.layouts(splits) for use in nest.uses)])[fastest]
        different = np.sort(fastest[np.unique(seen, axis=0, return_index=True)[1]])
        return splits[different[_first(times[different])]]


def _first(rank: Floats) -> Ints:
    """Ascending positions of the `MOST_STRATEGIES` least of ``rank``, and of the first one."""
    kept = np.argsort(rank, kind="stable")[:MOST_STRATEGIES]
    return np.unique(np.append(kept, 0))
