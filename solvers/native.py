"""The one place that imports the compiled core; each track wraps its kernels in ``_kernels.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardmark.instances.graph import Graph, Index

try:
    from shardmark.solvers._core import ffi, lib
except ImportError as error:
    raise ImportError(
        f"cannot import the compiled core {__package__}._core ({error}): run `make setup` or `pip install -e .`"
    ) from error

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

_REASONS = {
    lib.SHARD_CYCLE: "expected a graph without cycles",
    lib.SHARD_BAD_ORDER: "expected a topological order: every node once, every edge forwards",
    lib.SHARD_NAN: "expected numbers, found NaN",
}


def kahn(graph: Graph, priority: ArrayLike) -> Index:
    """Topological order, shape (n,), int32: at every step the ready node of greatest priority, ties by smallest index.

    ``priority`` has shape (n,) and holds no NaN, else ValueError. Archer et al. 2024, Algorithm 3, O(n log n + m).
    """
    start, head = graph.out_csr
    order = np.empty(graph.nodes, dtype=np.int32)
    keys = floats(priority, (graph.nodes,))
    check(lib.shard_kahn(graph.nodes, array_in(start), array_in(head), array_in(keys), array_out(order)))
    return order


def floats(values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Values as a contiguous float64 array; ValueError if they have another shape."""
    return shaped(np.ascontiguousarray(values, dtype=np.float64), shape)


def shaped(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The array itself; ValueError if it has another shape."""
    if array.shape != shape:
        raise ValueError(f"expected an array of shape {shape}, found {array.shape}")
    return array


_POINTER = {
    np.dtype(np.int8): "int8_t[]",
    np.dtype(np.int32): "int32_t[]",
    np.dtype(np.int64): "int64_t[]",
    np.dtype(np.uint64): "uint64_t[]",
    np.dtype(np.float32): "float[]",
    np.dtype(np.float64): "double[]",
}


def array_in(array: NDArray[Any]) -> Any:
    """A pointer to an array that a kernel reads; ValueError unless it is contiguous."""
    return ffi.from_buffer(_POINTER[array.dtype], array)


def array_out(array: NDArray[Any]) -> Any:
    """A pointer to an array that a kernel writes; ValueError if it is read-only or not contiguous."""
    return ffi.from_buffer(_POINTER[array.dtype], array, require_writable=True)


def check(status: int) -> None:
    """Raise MemoryError or ValueError for the status of a kernel."""
    if status == lib.SHARD_NO_MEMORY:
        raise MemoryError("the compiled core could not allocate its workspace")
    if status != lib.SHARD_OK:
        raise ValueError(_REASONS[status])
