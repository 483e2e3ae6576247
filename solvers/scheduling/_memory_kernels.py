"""The core's moves for tight memory, unless tensors share links."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Index
from shardmark.solvers.native import array_out, check, ffi, lib, shaped
from shardmark.solvers.scheduling._kernels import Simulator


def ordered_moves(
    simulator: Simulator, device: Ints | Index, sequence: Index, seed: int, moves: int, temperature: float
) -> tuple[float, Index, Index]:
    """Excess of memory after moves, and the new devices and sequence, shape (n,) each: ``ordered_moves.h``."""
    device, sequence = (np.array(column, dtype=np.int32) for column in (device, sequence))
    units, _columns = simulator._units()
    reserved, excess = simulator.instance.holding == "reserved", ffi.new("double *")
    state = array_out(np.array([seed], dtype=np.uint64))
    now = (array_out(shaped(column, (simulator.instance.nodes,))) for column in (device, sequence))
    check(lib.shard_ordered_moves(simulator._system, units, reserved, moves, temperature, state, *now, excess))
    return excess[0], device, sequence
