"""Track ``pipeline``: at most k stages, least bottleneck including communication (MTPP, Archer et al., ICML 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.evaluator import Evaluator
from shardmark.instances.files import placement as placement_file
from shardmark.instances.files.columns import (
    LARGEST_TOTAL,
    Floats,
    describe,
    float_column,
    freeze_columns,
    int_pairs,
    names_column,
    plain,
    refuse_below_0,
    require_columns,
    require_equal_lengths,
    require_format,
    require_int,
    require_number,
    require_rows,
    require_text,
)
from shardmark.instances.files.jsonfile import require_keys
from shardmark.instances.graph import Graph, OnGraph
from shardmark.instances.options import Option
from shardmark.instances.placement_as_pipeline import as_pipeline

FORMAT = "shardmark/pipeline/1"
OPTIONS: Mapping[str, Option] = {"stages": Option(int, "number of stages")}
RAGGED = True


@dataclass(frozen=True, eq=False)
class Instance(Evaluator, OnGraph):
    """A model graph that is cut into at most ``stages`` stages.

    ``graph``        n nodes; every node produces one tensor, which all its successors read
    ``work``         shape (n,), float64: running time of a node, any one unit of time
    ``output_size``  shape (n,), float64: size of the tensor it produces, any one unit of size
    ``param_size``   shape (n,), float64: size of the parameters that it uses, same unit
    ``bandwidth``    size per time between stages, > 0
    ``memory``       fast memory of a stage, same unit as the sizes; None: unlimited, the overflow is zero
    """

    track: ClassVar[str] = "pipeline"

    name: str
    graph: Graph
    node_names: tuple[str, ...]
    work: Floats
    output_size: Floats
    param_size: Floats
    stages: int
    bandwidth: float
    memory: float | None = None
    source: str = field(default="instance", repr=False)

    def __post_init__(self) -> None:
        sizes = ("work", "output_size", "param_size")
        require_columns(self, ("node_names", *sizes), self.nodes, "nodes")
        for name in sizes:
            refuse_below_0(getattr(self, name), self.source, f"nodes.{name}[{{}}]")
        if not 1 <= self.stages < 2**31:
            raise InputError(self.source, "stages", f"expected 1 to 2147483647, found {describe(self.stages)}")
        if not 0 < self.bandwidth < np.inf:
            raise InputError(self.source, "bandwidth", f"expected a positive number, found {self.bandwidth}")
        if self.memory is not None and not 0 <= self.memory < np.inf:
            raise InputError(self.source, "memory", f"expected null or a number >= 0, found {self.memory}")
        with np.errstate(over="ignore"):  # upper bound on a stage's cost: tensors in, out and at the peak
            total = self.work.sum() + (self.output_size.sum() * 3 + self.param_size.sum()) / self.bandwidth
        if not total <= LARGEST_TOTAL:
            raise InputError(self.source, "nodes", "expected numbers whose sums are finite")
        freeze_columns(self)

    def summary(self) -> dict[str, Any]:
        """Facts for ``shardmark info`` and the leaderboard."""
        outdegree = np.diff(self.graph.out_csr[0])
        return {
            "track": self.track,
            "name": self.name,
            "nodes": self.nodes,
            "edges": self.edges,
            "largest_outdegree": int(outdegree.max(initial=0)),
            "sources": int((np.diff(self.graph.in_csr[0]) == 0).sum()),
            "sinks": int((outdegree == 0).sum()),
            "stages": self.stages,
            "bandwidth": self.bandwidth,
            "memory": self.memory,
            "total_work": float(self.work.sum()),
            "largest_work": float(self.work.max(initial=0.0)),
            "total_output": float(self.output_size.sum()),
            "total_params": float(self.param_size.sum()),
            "simple_bound": self.work_bound(),
        }

    def work_bound(self) -> float:
        """Lemma 3.3, Equation (13): max(largest work, total work / k), rounded down a little."""
        bound = max(float(self.work.max(initial=0.0)), float(self.work.sum()) / self.stages)
        return bound * (1 - 1e-12)


def recognises(document: Any) -> bool:
    """True if the document declares the pipeline format."""
    return isinstance(document, dict) and str(document.get("format", "")).startswith("shardmark/pipeline/")


def parse(document: Any, source: str, stages: int | None = None) -> Instance:
    """Build an instance from the columnar JSON; ``stages`` overrides the number in the file.

    By default the bandwidth is 1, memory is unlimited, and nodes have no parameters and are named by their numbers. A
    graph of the placement paper is converted first, see `shardmark.instances.placement_as_pipeline`.
    """
    if placement_file.recognises(document):
        document = {"format": FORMAT, **as_pipeline(document, source)}
    optional = ("name", "stages", "bandwidth", "memory", "comment")
    require_format(document, FORMAT, source)
    require_keys(document, source, "", ("format", "nodes", "edges"), optional)
    nodes = require_keys(document["nodes"], source, "nodes", ("work", "output_size"), ("name", "param_size"))
    require_equal_lengths(nodes, source, "nodes")
    work = float_column(nodes["work"], source, "nodes.work")
    n = len(work)
    memory = document.get("memory")
    names = names_column(nodes.get("name"), n, source, "nodes.name")
    return Instance(
        name=require_text(document.get("name", "pipeline"), source, "name"),
        graph=_graph(document["edges"], names, source),
        node_names=names,
        work=work,
        output_size=float_column(nodes["output_size"], source, "nodes.output_size", n),
        param_size=float_column(nodes.get("param_size", [0] * n), source, "nodes.param_size", n),
        stages=_stages(document.get("stages"), stages, source),
        bandwidth=require_number(document.get("bandwidth", 1.0), source, "bandwidth"),
        memory=None if memory is None else require_number(memory, source, "memory"),
        source=source,
    )


def _graph(edges: Any, names: tuple[str, ...], source: str) -> Graph:
    tail, head = int_pairs(require_rows(edges, source, "edges"), source, "edges", "[tail, head]")
    return Graph(len(names), tail, head, source, names)


def _stages(in_file: Any, given: int | None, source: str) -> int:
    if in_file is not None:
        in_file = require_int(in_file, source, "stages")
    if in_file is None and given is None:
        raise InputError(source, "stages", "expected a number in the file, or --stages N (stages=N in Python)")
    return require_int(in_file if given is None else given, source, "stages")


def to_document(instance: Instance) -> dict[str, Any]:
    """The columnar JSON of an instance."""
    return {
        "format": FORMAT,
        "name": instance.name,
        "stages": instance.stages,
        "bandwidth": instance.bandwidth,
        "memory": instance.memory,
        "nodes": {
            "name": list(instance.node_names),
            "work": plain(instance.work),
            "output_size": plain(instance.output_size),
            "param_size": plain(instance.param_size),
        },
        "edges": np.column_stack([instance.graph.tail, instance.graph.head]).tolist(),
    }
