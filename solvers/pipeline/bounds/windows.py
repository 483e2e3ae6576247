"""A bound for large graphs: the work, the tensors that cross every window of work, and their readers."""

from __future__ import annotations

import math
from threading import Timer

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.pipeline import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers.native import Longs
from shardmark.solvers.pipeline._kernels import closure_work, window_cuts
from shardmark.solvers.registry import Run, bound

#: All work and sizes together become integers below 2 to this power.
BITS = 48
#: The bisection ends once its interval is this share of the target: 1 / 2**12.
CLOSE = 12
#: Share of the time after which kernels are stopped.
SHARE = 0.8


@bound(track="pipeline", source="this project; minimum cuts")
def windows(instance: Instance, run: Run) -> None:
    """Refute target costs by tensors that must cross stage boundaries.

    Suppose no stage costs more than T, so no stage does more than T work. From stage to stage the completed work rises
    by at most T, so some stage ends in each window from jT to (j + 1)T. The nodes completed there form an ideal. It
    contains every node whose removal, together with its descendants, would leave too little work, and no node whose
    ancestors are too much work. The tensors that leave the ideal weigh at least a minimum cut. The windows divide the
    size of each tensor among themselves, so the cuts add up. Each crossing tensor is sent once and received at least
    once, and more often if its readers do more work than one stage can (`_received_again`). If all work and these
    transfers together exceed k T, the target T is refuted. Computed in integers that are rounded down; the overflow is
    left out.
    """
    run.bound(instance.work_bound(), lambda: {"kind": "work"})
    sent = np.nextafter(instance.output_size / instance.bandwidth, 0.0)  # at most the exact quotient
    total = float(instance.work.sum() + sent.sum())
    if not 0 < total < math.inf:
        return
    bits = min(BITS - math.frexp(total)[1], 1000)
    scale = 2.0**bits
    work, size = (instance.work * scale).astype(np.int64), (sent * scale).astype(np.int64)
    stop = np.zeros(1, dtype=np.int32)
    timer = Timer(SHARE * run.remaining(), stop.fill, (1,))
    timer.start()
    try:
        closures = closure_work(instance.graph, work, stop), closure_work(instance.graph, work, stop, reverse=True)
        stages, whole = min(instance.stages, instance.nodes), int(work.sum())
        reading = np.zeros(instance.nodes, dtype=np.int64)
        np.add.at(reading, instance.graph.tail, work[instance.graph.head])

        def least(window: int, moved: Longs | None = None) -> int:
            """Least average cost of a stage if none costs more than the window; a greater value refutes the window."""
            again = _received_again(size, reading, window, stages)
            if again is None:
                return whole
            crossing = window_cuts(instance.graph, size, closures, whole, window, stop, moved)
            return -(-(whole + 2 * crossing + again) // stages)

        low = max(int(work.max()), -(-whole // stages), 1)
        high, refuted = least(low), 0
        while high - low > low >> CLOSE and not stop[0]:
            target = (low + high + 1) // 2
            if least(target) > target:
                low = refuted = target
                run.bound(safely(low / scale, instance.nodes + instance.edges))
            else:
                high = target - 1
    finally:
        timer.cancel()
    if run.certify and refuted:
        stop[0], flows = 0, np.zeros(((whole - 1) // low, instance.edges), dtype=np.int64)
        least(low, flows)
        proof = {"kind": "windows", "scale": bits, "most": low, "windows": _told(instance, flows)}
        run.bound(safely(low / scale, instance.nodes + instance.edges), lambda: proof)


def _told(instance: Instance, flows: Longs) -> list[dict[str, list[int]]]:
    """What a certificate says of windows, given flows by window and edge, edges by ascending makers."""
    number = np.argsort(instance.graph.tail, kind="stable")
    return [{"edges": number[row != 0].tolist(), "moved": row[row != 0].tolist()} for row in flows]


def _received_again(size: NDArray[np.int64], reading: NDArray[np.int64], window: int, stages: int) -> int | None:
    """Total size of all receptions after the first, if no stage costs more than the window; None if some stage must.

    ``reading``, shape (nodes,), is the work of all readers of each tensor. If it exceeds the window, the readers are
    in several stages. Each of these stages sends or receives the tensor, which leaves less of the window for work; all
    but the producer's receive it.
    """
    wide = reading > window
    size, reading = size[wide], reading[wide]
    if np.any(size >= window):
        return None
    holding = -(-reading // (window - size))
    if np.any(holding > stages):
        return None
    return sum((times - 2) * each for times, each in zip(holding.tolist(), size.tolist(), strict=True))
