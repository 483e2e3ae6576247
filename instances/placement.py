"""Track ``placement``: operators on accelerators and CPUs, for throughput or latency (Tarnawski et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.evaluator import Evaluator
from shardmark.instances.files import placement as placement_file
from shardmark.instances.files.columns import LARGEST_TOTAL, Floats, describe
from shardmark.instances.files.placement import Workload, recognises
from shardmark.instances.options import Option, non_default, read_options, refuse_other_choices
from shardmark.instances.rounding import safely

__all__ = ["OPTIONS", "Instance", "greatest", "parse", "recognises", "to_document"]

OPTIONS: Mapping[str, Option] = {
    "objective": Option(
        str,
        "minimise the largest load of a device, or the time of one sample",
        "throughput",
        ("throughput", "latency"),
        "{}",
    ),
    "contiguity": Option(
        str,
        "allowed node sets of devices: contiguous; contiguous with an acyclic quotient graph; or any",
        "contiguous",
        ("contiguous", "acyclic", "free"),
        "{}",
    ),
    "schedule": Option(
        str,
        "training schedule: alternate forward and backward passes, or run all forward passes first",
        "pipedream",
        ("pipedream", "gpipe"),
        "schedule {}",
    ),
    "overlap": Option(
        str,
        "overlap of transfers with computation: none, on one channel, or on one channel per direction",
        "none",
        ("none", "half", "full"),
        "overlap {}",
    ),
    "cluster": Option(int, "accelerators per cluster, numbered consecutively (default: all)", mode="clusters"),
    "slowdown": Option(float, "factor by which transfers between clusters take longer", 1.0),
    "allreduce": Option(
        float,
        "allow replicas of a stage, which synchronise at this bandwidth, in the file's units (default: no replicas)",
        mode="replication",
    ),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Instance(Evaluator, Workload):
    """A `files.placement.Workload` and the objective and rules of its placements.

    ``objective``   "throughput": the largest load of a device (Section 5); "latency": the time of one sample
                    (Section 4, Appendix A)
    ``contiguity``  "contiguous": a device holds a contiguous set, forward and backward nodes separately
                    (Definition 3.1); "acyclic": in addition, the devices form no cycle; "free": any set, for
                    latency any number of contiguous sets
    ``schedule``    "pipedream": the largest sum of forward and backward load; "gpipe": the sum of the largest ones
                    (Section 5.3)
    ``overlap``     "none": a load is the sum of transfers and computation; "half": the greater of the two; "full":
                    the greatest of transfers in, computation, transfers out (Appendix H.1)
    ``cluster``     accelerators 0 to cluster - 1 form the first cluster, and so on; None: one cluster (Appendix H.3)
    ``slowdown``    factor >= 1 on the time of transfers between accelerators of two clusters: for the reader, and
                    for the sender if any reader is in another cluster. CPUs belong to every cluster
    ``allreduce``   size per time at which replicas of a stage synchronise (Appendix H.2); None: no replicas
    """

    track: ClassVar[str] = "placement"

    objective: str = "throughput"
    contiguity: str = "contiguous"
    schedule: str = "pipedream"
    overlap: str = "none"
    cluster: int | None = None
    slowdown: float = 1.0
    allreduce: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.accelerators + self.cpus:
            raise InputError(self.source, "maxFPGAs", "expected at least one accelerator or CPU")
        refuse_other_choices(self, OPTIONS, self.source)
        if self.allreduce is not None and not 0 < self.allreduce < np.inf:
            raise InputError(self.source, "option allreduce", f"expected a positive number, found {self.allreduce}")
        if self.cluster is not None and not 1 <= self.cluster < placement_file.LARGEST:
            expected = f"expected 1 to {placement_file.LARGEST - 1}, found {describe(self.cluster)}"
            raise InputError(self.source, "option cluster", expected)
        if not 1 <= self.slowdown < np.inf:
            raise InputError(self.source, "option slowdown", f"expected at least 1, found {self.slowdown}")
        self._refuse_combinations()
        if not self.cpus:
            self._refuse_lack_of_memory()
        self._refuse_infinite_sums()

    def _refuse_infinite_sums(self) -> None:
        """Raise InputError if a sum may overflow; none exceeds running and sending everything in sequence."""
        with np.errstate(over="ignore"):
            sent = self.transfer * (2 + np.diff(self.graph.out_csr[0])) * self.slowdown
            total = self.cpu_time.sum() + self.accelerator_time.sum() + sent.sum() + self.size.sum()
            synchronised = total / min(self.allreduce or 1.0, 1.0)
        if not total <= LARGEST_TOTAL:
            raise InputError(self.source, "nodes", "expected numbers whose sums are finite")
        if not np.isfinite(synchronised):
            expected = f"expected a bandwidth at which synchronising takes a finite time, found {self.allreduce}"
            raise InputError(self.source, "option allreduce", expected)

    def _refuse_combinations(self) -> None:
        given = non_default(self, OPTIONS)
        if self.objective == "latency":
            for name in given:
                if name != "objective" and given[name] != "free":
                    usual = "contiguous or free" if name == "contiguity" else OPTIONS[name].default or "none"
                    expected = f"expected {usual} with the objective latency, found {given[name]}"
                    raise InputError(self.source, f"option {name}", expected)
        if self.allreduce is not None and self.schedule == "gpipe":
            raise InputError(self.source, "option allreduce", "expected the schedule pipedream")
        if self.cluster is not None and self.slowdown == 1:
            raise InputError(self.source, "option cluster", "expected a slowdown above 1 as well")
        if self.cluster is None and self.slowdown != 1:
            raise InputError(
                self.source, "option slowdown", "expected the option cluster as well, the size of the clusters"
            )
        if self.allreduce is not None and self.cluster is not None:
            raise InputError(self.source, "option allreduce", "expected no clusters")

    def _refuse_lack_of_memory(self) -> None:
        """Raise InputError if there are no CPUs and the accelerators cannot hold the nodes."""
        for v in np.flatnonzero(~self.supported)[:1]:
            expected = f"expected a node that accelerators support, as there are no CPUs{self._class_note(v)}"
            raise InputError(self.source, f"nodes[{v}].supportedOnFpga", expected)
        sizes = self.of_units(self.size)[self.unit]
        for v in np.flatnonzero(sizes > self.room)[:1]:
            expected = f"expected at most the memory {self.memory:g}, as there are no CPUs, found {sizes[v]:g}"
            raise InputError(self.source, f"nodes[{v}].size", f"{expected}{self._class_note(v)}")
        total = float(self.size.sum())
        if total > self.accelerators * self.room:
            expected = (
                f"expected at least {total / self.accelerators:g}, as accelerators alone must hold sizes of {total:g}"
            )
            raise InputError(self.source, "maxSizePerFPGA", f"{expected}, found {self.memory:g}")

    def _class_note(self, v: int) -> str:
        count = int(np.count_nonzero(self.unit == self.unit[v]))
        return f" (in a colour class of {count} nodes)" if count > 1 else ""

    def summary(self) -> dict[str, Any]:
        """Facts for ``shardmark info`` and the leaderboard."""
        outdegree, members = np.diff(self.graph.out_csr[0]), np.bincount(self.unit, minlength=1)
        forward = np.unique(self.unit[~self.backward])
        return {
            "track": self.track,
            "name": self.name,
            **{name: getattr(self, name) for name in OPTIONS},
            "nodes": self.nodes,
            "edges": self.edges,
            "backward_nodes": int(self.backward.sum()),
            "orphaned_nodes": int((self.backward & ~np.isin(self.unit, forward)).sum()),
            "unsupported_nodes": int((~self.supported).sum()),
            "units": len(members),
            "largest_unit": int(members.max()),
            "largest_outdegree": int(outdegree.max(initial=0)),
            "sources": int((np.diff(self.graph.in_csr[0]) == 0).sum()),
            "sinks": int((outdegree == 0).sum()),
            "accelerators": self.accelerators,
            "cpus": self.cpus,
            "memory": self.memory,
            "total_size": float(self.size.sum()),
            "total_cpu_time": float(self.cpu_time.sum()),
            "total_accelerator_time": float(self.accelerator_time.sum()),
            "simple_bound": self.load_bound() if self.objective == "throughput" else self.path_bound(),
        }

    def unit_times(self) -> tuple[Floats, Floats]:
        """Time of each unit on an accelerator and on a CPU; infinite if it cannot be there."""
        unfit = (self.of_units(~self.supported) > 0) | (self.of_units(self.size) > self.room)
        accelerator = np.where(unfit | (self.accelerators == 0), np.inf, self.of_units(self.accelerator_time))
        cpu = np.where(self.cpus == 0, np.inf, self.of_units(self.cpu_time))
        return accelerator, cpu

    def load_bound(self) -> float:
        """Lower bound on the largest load: all work spread evenly over the best devices; memory ignored.

        Dual of the linear relaxation: for every share s, sum over units of min(s a / k, (1 - s) c / l) is a bound;
        the best share is found by golden section, as the sum is concave in it. Rounded down a little.
        """
        accelerator, cpu = self.unit_times()
        largest = 0.0 if self.allreduce else float(np.minimum(accelerator, cpu).max(initial=0.0))
        if not self.accelerators or not self.cpus:
            spread = float((cpu if self.cpus else accelerator).sum()) / (self.accelerators + self.cpus)
        else:
            spread = greatest(lambda share: _spread(share, accelerator / self.accelerators, cpu / self.cpus))
        return safely(max(largest, spread), self.nodes)

    def path_bound(self) -> float:
        """Lower bound on the latency: the longest path, each node on its faster device; transfers ignored."""
        can = np.isfinite(self.unit_times()[0])[self.unit]
        fastest = np.where(can, self.accelerator_time, np.inf)
        fastest = np.minimum(fastest, self.cpu_time if self.cpus else np.inf)
        return safely(self.graph.longest_path(fastest), self.nodes)


def greatest(concave: Any) -> float:
    """Maximise a concave function on (0, 1) by golden section search; return the greatest value met."""
    ratio, low, high = (5**0.5 - 1) / 2, 0.0, 1.0
    points = [1 - ratio, ratio]
    values = [concave(points[0]), concave(points[1])]
    best = max(values)
    for _ in range(50):
        left = values[0] >= values[1]
        low, high = (low, points[1]) if left else (points[0], high)
        new = high - ratio * (high - low) if left else low + ratio * (high - low)
        value = concave(new)
        best = max(best, value)
        points = [new, points[0]] if left else [points[1], new]
        values = [value, values[0]] if left else [values[1], value]
    return float(best)


def _spread(share: float, accelerator: Floats, cpu: Floats) -> float:
    return float(np.minimum(share * accelerator, (1 - share) * cpu).sum())


def parse(document: Any, source: str, **given: Any) -> Instance:
    """Build an instance from the paper's JSON; options that are ``given`` override those in the file.

    A file may carry options under a key of ours, ``options``, which the paper's program ignores.
    """
    fields = placement_file.read(document, source)
    return Instance(**fields, **read_options(document, given, OPTIONS, source))


def to_document(instance: Instance) -> dict[str, Any]:
    """The paper's JSON of an instance, with its non-default options."""
    options = non_default(instance, OPTIONS)
    return {**({"options": options} if options else {}), **placement_file.document(instance)}
