"""What a reduction does, as steps of a certificate that the referee can check."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints


class Record:
    """Steps of kind "costs-moved" of `shardmark.harness.verify.certificates.intraop`, in order.

    ``time``   shape (steps,): the step of the instance that each step of the timeline stands for
    """

    def __init__(self, time: Ints) -> None:
        self.time, self.steps = time, list[dict[str, Any]]()

    def nothing_left(self) -> None:
        """Some variable has no value left: a round shows it."""
        self.steps.append({"scale": 0})

    def merged(self, alive: NDArray[np.bool_], parent: Ints) -> None:
        """Only values of the mask are left, and each variable is determined by its parent, which may be itself."""
        child = np.flatnonzero(parent != np.arange(len(parent)))
        step: dict[str, Any] = {"merged": np.stack([child, parent[child]], axis=1).ravel().tolist()}
        if not alive.all():
            step["kept"] = np.packbits(alive).tobytes().hex()
        self.steps.append(step)

    def replaced(self, log: Ints) -> None:
        """Rows and the rows that replace them, shape (n, 2); -1 if some pair forbids a row."""
        if len(log):
            self.steps.append({"replaced": log.ravel().tolist()})

    def leaves(self, child: Ints, parent: Ints, response: list[Ints]) -> None:
        """Each child takes the best response to the value of its parent."""
        if not len(child):
            return
        self.steps.append({"leaves": [[int(c), *r.tolist()] for c, r in zip(child, response, strict=True)]})
        self.steps.append({"merged": np.stack([child, parent], axis=1).ravel().tolist()})

    def unfit(self, rows: Ints, steps: Ints) -> None:
        """Rows that exceed the limit in a step of the timeline, even with the least memory of all other variables."""
        self.steps.append({"unfit": np.stack([rows, self.time[steps]], axis=1).ravel().tolist()})
