"""Files of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020) as instances of pipeline.

Accelerators become stages, times on an accelerator become work, and communication costs become tensors. In both
problems the load of a device is its work plus the time of each tensor that it sends or receives, counted once, and the
cost is the greatest load. Differences:

CPUs                a pipeline has none; a node that no accelerator supports is refused
memory              in the file, a hard limit on the total size of an accelerator's nodes; in a pipeline, parameters
                    beyond the memory are streamed. The limit applies only if a bandwidth is given, which converts
                    communication costs to bytes; otherwise the bandwidth is 1, tensor sizes are times and memory is
                    unlimited
colour classes      nodes of a colour, and nodes on a cycle with such a class, are contracted to one node: no partition
                    with an acyclic quotient graph can separate them. The tensors of the members stay separate,
                    carried by helper nodes (see instances/split_multi_output.py)
backward passes     a backward node must share a device with its forward node although data flows back through the
                    stages, which no acyclic quotient graph allows. Graphs with backward nodes are refused or reduced
                    to their forward part
artificial edges    order their nodes and send nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shardmark.instances import track_module
from shardmark.instances.files.jsonfile import read_json
from shardmark.instances.importers import Option
from shardmark.instances.placement_as_pipeline import as_pipeline

TRACK = "pipeline"
OPTIONS: Mapping[str, Option] = {
    "stages": Option(int, "number of stages (default: as many as the file has accelerators)"),
    "bandwidth": Option(float, "bytes per unit of time between stages (default: 1, with unlimited memory)"),
    "part": Option(str, "part of a training graph to import (default: whole)", "whole", ("whole", "forward")),
}


def read(path: Path, *, stages: int | None, bandwidth: float | None, part: str) -> Any:
    """Read a file, plain or gzip, as a pipeline; InputError for a graph that has none."""
    pipeline = track_module(TRACK)
    columns = as_pipeline(read_json(path), str(path), bandwidth, forward_only=part == "forward")
    return pipeline.parse({"format": pipeline.FORMAT, **columns}, str(path), stages)
