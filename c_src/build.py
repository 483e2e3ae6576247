"""Build the C core as the extension modules `solvers._core` and `instances.files._reader` (cffi, API mode)."""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

FOLDER = Path(__file__).resolve().parent
HEADERS = (
    "common/status.h",
    "common/kahn.h",
    "pipeline/segment.h",
    "pipeline/slice.h",
    "pipeline/kahn_slice.h",
    "pipeline/anneal_partition.h",
    "pipeline/cheapest_set.h",
    "pipeline/anneal_set.h",
    "intraop/trws.h",
    "intraop/soft_trws.h",
    "intraop/dead_end_elimination.h",
    "intraop/contract.h",
    "intraop/large_neighbourhood.h",
    "placement/ideals/ideals.h",
    "placement/ideals/split_dp.h",
    "placement/ideals/stages_dp.h",
    "placement/ideals/schedule_dp.h",
    "placement/load/load_model.h",
    "placement/load/anneal_load.h",
    "placement/load/descend_load.h",
    "placement/latency/latency_problem.h",
    "placement/latency/simulate_latency.h",
    "placement/latency/anneal_latency.h",
    "placement/cheapest_with.h",
    "scheduling/simulate.h",
    "scheduling/units.h",
    "scheduling/heft.h",
    "scheduling/bounds/heads_tails.h",
    "scheduling/simulated_moves.h",
    "scheduling/path_moves.h",
)
# Nothing in these is for Python.
INTERNAL = (
    "placement/load/load_state.h",
    "placement/latency/subgraphs.h",
    "placement/latency/latency_moves.h",
    "placement/ideals/walk.h",
    "pipeline/partition.h",
    "common/anneal.h",
    "common/arena.h",
    "common/flow.h",
    "common/heap.h",
    "common/random.h",
    "common/stop.h",
    "intraop/simd.h",
    "scheduling/bounds/head_bounds.h",
    "scheduling/bounds/pair_lags.h",
    "scheduling/longest_paths.h",
    "scheduling/msr_queue.h",
)
SOURCES = (
    "common/kahn.c",
    "common/stop.c",
    "pipeline/segment.c",
    "pipeline/slice.c",
    "pipeline/kahn_slice.c",
    "pipeline/partition.c",
    "pipeline/anneal_partition.c",
    "common/flow.c",
    "pipeline/cheapest_set.c",
    "pipeline/anneal_set.c",
    "intraop/trws.c",
    "intraop/soft_trws.c",
    "intraop/dead_end_elimination.c",
    "intraop/contract.c",
    "intraop/large_neighbourhood.c",
    "placement/ideals/ideals.c",
    "placement/ideals/split_dp.c",
    "placement/ideals/stages_dp.c",
    "placement/ideals/schedule_dp.c",
    "placement/load/load_state.c",
    "placement/load/anneal_load.c",
    "placement/load/descend_load.c",
    "placement/latency/subgraphs.c",
    "placement/latency/simulate_latency.c",
    "placement/latency/latency_moves.c",
    "placement/latency/anneal_latency.c",
    "placement/cheapest_with.c",
    "scheduling/simulate.c",
    "scheduling/msr_queue.c",
    "scheduling/heft.c",
    "scheduling/bounds/head_bounds.c",
    "scheduling/bounds/pair_lags.c",
    "scheduling/bounds/heads_tails.c",
    "scheduling/simulated_moves.c",
    "scheduling/longest_paths.c",
    "scheduling/path_moves.c",
)
READER_HEADERS = ("common/status.h", "reader/scan.h", "reader/digest.h")
READER_SOURCES = ("reader/scan.c", "reader/digest.c")
DECLARATIONS = re.compile(r"/\* cffi: begin \*/\n(.*?)/\* cffi: end \*/", re.DOTALL)

# No contraction: the same segment must cost the same bits wherever it is computed. No -march: a wheel runs anywhere.
# Hidden functions can be inlined within their file, and are called directly from others.
FLAGS = [
    *("-std=c11", "-O3", "-ffp-contract=off", "-fvisibility=hidden"),
    *("-Wall", "-Wextra", "-Wshadow", "-Wvla", "-Wstrict-prototypes", "-Werror"),
]
# The wrapper that cffi generates follows our headers, and the warnings that status.h adds do not suit it.
LENIENT = "".join(f'#pragma GCC diagnostic ignored "-W{name}"\n' for name in ("pedantic", "conversion"))


def declarations(headers: tuple[str, ...] = HEADERS) -> str:
    """Return the declarations that the headers offer to Python: the text between their two marker comments."""
    found = {name: DECLARATIONS.findall((FOLDER / name).read_text()) for name in headers}
    for name, parts in found.items():
        if len(parts) != 1:
            raise ValueError(f"c_src/{name}: expected one part between the marker comments, found {len(parts)}")
    return "".join(part for (part,) in found.values())


def builder(module: str, headers: tuple[str, ...], sources: tuple[str, ...]) -> FFI:
    """Return the builder of one extension module."""
    ffi = FFI()
    ffi.cdef(declarations(headers))
    ffi.set_source(
        module,
        "".join(f'#include "{name}"\n' for name in headers) + LENIENT,
        sources=[f"c_src/{name}" for name in sources],
        include_dirs=["c_src"],
        depends=[f"c_src/{name}" for name in headers + INTERNAL],
        extra_compile_args=FLAGS,
    )
    return ffi


ffibuilder = builder("solvers._core", HEADERS, SOURCES)
reader = builder("instances.files._reader", READER_HEADERS, READER_SOURCES)
