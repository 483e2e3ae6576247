"""Scotch, a graph partitioner installed on the machine: a baseline of the paper."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from itertools import pairwise

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.throughput.partitions import Weighted, place_parts
from shardmark.solvers.registry import Declined, Run, solver

#: Names of the program in Debian and elsewhere; the second may also be an editor of disk partitions.
NAMES = ("scotch_gpart", "gpart")


@solver(
    track="placement", source="Pellegrini 2009, as in Tarnawski et al. 2020, Section 6, Scotch", proves_bounds=False
)
def scotch(instance: Instance, run: Run) -> None:
    """Partition by Scotch's gpart: balanced work, few transfers, memory ignored.

    Requires contiguity free, as parts need not be contiguous. For latency, parts are cut into contiguous subgraphs.
    CPUs get the blocks that no accelerator can hold. Declined if Scotch is not installed.
    """
    program = _program(run)
    place_parts(instance, run, "Scotch", lambda graph, parts: _partition(program, graph, parts, run))


def _program(run: Run) -> str:
    """The path of gpart."""
    for path in filter(None, map(shutil.which, NAMES)):
        with suppress(OSError):  # of a file that this machine cannot run
            if "gmap/gpart" in _output_of(_run_program([path, "-V"], "", run)):
                return path
    raise Declined("no gpart of Scotch on the path: install Scotch, for instance Debian's package scotch")


def _partition(program: str, graph: Weighted, parts: int, run: Run) -> Ints:
    """The part of each vertex."""
    ended = _run_program([program, str(parts)], graph_file(graph), run)
    if ended.returncode:
        raise RuntimeError(
            f"{program} ended with {ended.returncode}: {_output_of(ended).strip() or 'it wrote nothing'}"
        )
    numbers = np.array(ended.stdout.split(), dtype=np.int64)
    vertices = len(graph.work)
    part = np.full(vertices, -1, dtype=np.int64)
    if len(numbers) == 2 * vertices + 1:
        part[numbers[1::2] % vertices] = numbers[2::2]
    if not (part.min() >= 0 and part.max() < parts):
        raise RuntimeError(f"gpart: expected a part below {parts} for each of {vertices} vertices")
    return part


def graph_file(graph: Weighted) -> str:
    """A graph in Scotch's format: version, counts and flags; then per vertex its work, degree and weighted edges."""
    edges = np.column_stack([graph.weight, graph.other])
    lines = ["0", f"{len(graph.work)} {len(edges)}", "0 011"]
    for work, (begin, end) in zip(graph.work.tolist(), pairwise(graph.start.tolist()), strict=True):
        lines.append(" ".join(map(str, (work, end - begin, *edges[begin:end].ravel().tolist()))))
    return "\n".join(lines) + "\n"


def _run_program(command: list[str], text: str, run: Run) -> subprocess.CompletedProcess[str]:
    """Run a program within the time and with the threads of the run."""
    threads = {"SCOTCH_PTHREAD_NUMBER": str(run.cores), "SCOTCH_DETERMINISTIC": "1"}
    try:
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=run.remaining(),
            env=os.environ | threads,
        )
    except subprocess.TimeoutExpired:
        raise Declined(f"{command[0]} takes longer than there is time") from None


def _output_of(ended: subprocess.CompletedProcess[str]) -> str:
    return ended.stderr + ended.stdout
