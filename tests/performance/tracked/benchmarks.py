"""Times and gaps that are tracked from commit to commit, by asv and by pytest-benchmark alike.

A class is a group: ``time_*`` is timed, ``track_*`` returns a figure (lower is better), ``params`` are its cases and
``setup`` is not timed. The code measured is the installed one; instances and the idle solver are those of the working
tree, the same for every commit. Raise a group's ``version`` when its data changes.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from shardmark import instances
from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.sandbox.contract import Limits
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.harness.verify import verify
from shardmark.instances.generate import families
from shardmark.instances.pipeline import Instance, parse
from shardmark.solvers import native
from shardmark.solvers.native import kahn
from shardmark.solvers.registry import LocalRun, load_file, source_hash

try:
    from shardmark.solvers.pipeline._kernels import PipelineCore
    from shardmark.solvers.scheduling._kernels import Simulator
except ImportError:  # in commits that wrapped all kernels in one module
    from shardmark.solvers.native import PipelineCore, Simulator  # type: ignore[attr-defined, no-redef]

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "instances" / "data"
#: Kernels compute on one core, so that other work on the machine hardly changes their CPU time.
CPU_TIME = time.process_time
SOLVERS = Path(native.__file__).resolve().parent  # of the installed project


def data_file(name: str) -> Path:
    """An embedded instance of the working tree."""
    return next(path for path in sorted(DATA.rglob(f"{name}.json*")))


def layered(nodes: int, stages: int, memory: float | None = None) -> Instance:
    """A random layered graph, two inputs a node, the same for every commit: made here, from fixed seeds."""
    rng = np.random.Generator(np.random.PCG64(nodes))
    head = np.repeat(np.arange(8, nodes), 2)
    tail = head - 1 - (rng.random(len(head)) * np.minimum(head - 1, 40)).astype(int)
    edges = np.unique(np.column_stack([tail, head]), axis=0)
    document = {
        "format": "shardmark/pipeline/1",
        "stages": stages,
        "memory": memory,
        "nodes": {
            "work": rng.integers(1, 100, nodes).tolist(),
            "output_size": rng.integers(1, 50, nodes).tolist(),
            "param_size": rng.integers(0, 50, nodes).tolist(),
        },
        "edges": edges.tolist(),
    }
    return parse(document, "layered")


#: Nodes and memory of the graphs that are sliced.
ORDERS: dict[str, tuple[int, float | None]] = {
    "1000 nodes": (1000, None),
    "1000 nodes, memory": (1000, 2000.0),
    "5000 nodes": (5000, None),
}


class Slicing:
    """Cutting one topological order into at most 64 stages."""

    version = "2"
    timer = CPU_TIME
    params = tuple(ORDERS)
    param_names = ("order",)

    def setup(self, case: str) -> None:
        """Build the graph, an order and the core's view of both."""
        nodes, memory = ORDERS[case]
        self.instance = layered(nodes, 64, memory)
        self.core = PipelineCore(self.instance)
        self.priority = np.random.Generator(np.random.PCG64(1)).random(nodes)
        self.order = kahn(self.instance.graph, self.priority)

    def time_kahn(self, case: str) -> None:
        """Sort by priorities."""
        kahn(self.instance.graph, self.priority)

    def time_slice(self, case: str) -> None:
        """Slice the order."""
        self.core.slice(self.order)


class Simulation:
    """The event simulation of a data flow graph with 20,000 vertices on 50 devices, spread by chance."""

    version = "2"
    timer = CPU_TIME
    params = ("independent", "queue", "share")
    param_names = ("links",)

    def setup(self, links: str) -> None:
        """Draw the graph, the devices of its vertices, and their priorities."""
        dataflow = families()["random-dataflow"].build(1, nodes=20_000, devices=50, reach=500, links=links)
        rng = np.random.Generator(np.random.PCG64(1))
        self.simulator = Simulator(dataflow)
        self.device = rng.integers(0, dataflow.devices, dataflow.nodes)
        self.priority = rng.random(dataflow.nodes)

    def time_simulate(self, links: str) -> None:
        """One iteration, by priorities."""
        self.simulator.by_priority(self.device, self.priority)


class LongEdges:
    """The simulation of 100,000 vertices on 50 devices, with edges that reach over the whole graph."""

    version = "1"
    timer = CPU_TIME

    def setup(self) -> None:
        """Draw the graph, the devices of its vertices, and which of equals comes first."""
        dataflow = families()["random-dataflow"].build(1, nodes=100_000, devices=50, reach=100_000, links="independent")
        rng = np.random.Generator(np.random.PCG64(1))
        self.simulator = Simulator(dataflow)
        self.device = rng.integers(0, dataflow.devices, dataflow.nodes)
        self.rank = rng.permutation(dataflow.nodes)

    def time_fifo(self) -> None:
        """One iteration, first come first served."""
        self.simulator.by_priority(self.device, np.zeros(len(self.rank)), self.rank)

    def time_msr(self) -> None:
        """One iteration, by the scores of successors."""
        self.simulator.by_successors(self.device, (1, 1, 1, 5), self.rank)


class Reading:
    """Reading an embedded instance, from its file to validated arrays."""

    version = "2"
    timer = CPU_TIME
    params = ("sharded-transformer-128", "transformer-40")
    param_names = ("instance",)

    def setup(self, name: str) -> None:
        """Find the file."""
        self.path = data_file(name)

    def time_read(self, name: str) -> None:
        """Read it."""
        instances.load(self.path)


class Verification:
    """The verdict on one solution of an embedded instance."""

    version = "2"
    timer = CPU_TIME
    params = ("sharded-transformer-128", "transformer-40")
    param_names = ("instance",)

    def setup(self, name: str) -> None:
        """Read the instance and make a solution."""
        self.instance = instances.load(data_file(name))
        n = self.instance.nodes
        self.solution = [0] * n
        if self.instance.track == "pipeline":
            order = self.instance.graph.topological_order.tolist()
            for place, node in enumerate(order):
                self.solution[node] = place * self.instance.stages // n

    def time_verify(self, name: str) -> None:
        """Judge it."""
        verify(self.instance, self.solution)


class Overhead:
    """One run, under the referee, of a solver that does nothing: isolation, the limits, the verdict, the record."""

    version = "2"
    number = 1
    warmup_time = 0.0

    def setup(self) -> None:
        """Name the job."""
        path = HERE / "idle.py"
        solver = SolverInfo("idle", "pipeline", "solver", str(path), source_hash(path))
        problem = Problem("tiny", data_file("chain"), "pipeline")
        self.job = Job(solver, problem, 0, Limits(30.0, 1024.0))
        self.supervisor = Supervisor("posix")
        self.time_run()

    def teardown(self) -> None:
        """End the supervisor."""
        self.supervisor.close()

    def time_run(self) -> None:
        """Carry it out."""
        row = perform(self.job, self.supervisor, cpus=(min(os.sched_getaffinity(0)),))
        assert row.status == "ok", row.reason


class Gaps:
    """Cost of a fixed amount of search over the lower bound by work alone, less 1: better solvers, smaller figures."""

    version = "1"
    params = ("watts-strogatz-150", "block-model-200", "transformer-12")
    param_names = ("instance",)

    def track_brkga_100(self, name: str) -> float:
        """brkga-100, seed 0."""
        return self._gap(name, "brkga.py", "brkga-100")

    def track_random_100(self, name: str) -> float:
        """random-100, seed 0."""
        return self._gap(name, "random.py", "random-100")

    def track_annealing(self, name: str) -> float:
        """annealing, seed 0: its first two rounds."""
        from shardmark.solvers.pipeline.annealing import Search, anneal  # not there in every commit measured

        instance = instances.load(data_file(name))
        run = LocalRun(seed=0, timeout=100.0)
        anneal(Search(instance, run), run, most=200_000)
        return self._share(instance, run)

    def _gap(self, name: str, file: str, solver_name: str) -> float:
        instance = instances.load(data_file(name))
        (solver,) = [s for s in load_file(SOLVERS / "pipeline" / file) if s.name == solver_name]
        run = LocalRun(seed=0, timeout=100.0)
        solver.function(instance, run, **solver.params)
        return self._share(instance, run)

    @staticmethod
    def _share(instance: Instance, run: LocalRun) -> float:
        verdict = verify(instance, run.solutions[-1])
        assert verdict.feasible
        assert verdict.cost is not None
        return verdict.cost / instance.work_bound() - 1

    track_brkga_100.unit = track_random_100.unit = track_annealing.unit = "cost / bound - 1"  # type: ignore[attr-defined]


class Heft:
    """Devices for a data flow graph with 20,000 vertices on 50 devices, each where it finishes earliest."""

    version = "2"
    timer = CPU_TIME

    def setup(self) -> None:
        """Draw the graph."""
        dataflow = families()["random-dataflow"].build(1, nodes=20_000, devices=50, reach=500, links="independent")
        self.simulator = Simulator(dataflow)
        self.order = dataflow.graph.topological_order

    def time_heft(self) -> None:
        """Assign all vertices."""
        self.simulator.heft(self.order)


#: Methods that give the same solution in every run: track, file and name of the method, instance, its options.
METHODS: dict[str, tuple[str, str, str, str, dict[str, str]]] = {
    "greedy on sharded-transformer-12": ("intraop", "greedy.py", "greedy", "sharded-transformer-12", {}),
    "greedy on sharded-u-net-4": ("intraop", "greedy.py", "greedy", "sharded-u-net-4", {}),
    "mla on transformer-12": ("pipeline", "mla.py", "mla", "transformer-12", {}),
    "dpl on training-200": ("placement", "dp.py", "dpl", "training-200", {}),
    "dp on training-20-acyclic": ("placement", "dp.py", "dp", "training-20", {"contiguity": "acyclic"}),
    "local-search on training-20-free": (
        "placement",
        "local_search.py",
        "local-search",
        "training-20",
        {"contiguity": "free"},
    ),
    "heft-msr on dataflow-200": ("scheduling", "heft.py", "heft-msr", "dataflow-200", {}),
    "heft-pct on lstm-50-flow": ("scheduling", "heft.py", "heft-pct", "lstm-50-flow", {}),
    "mite-msr on dataflow-60": ("scheduling", "mite.py", "mite-msr", "dataflow-60", {}),
}


class Costs:
    """Cost of a method that always takes the same effort over the instance's simple bound, less 1."""

    version = "1"
    params = tuple(METHODS)
    param_names = ("method",)

    def track_gap(self, case: str) -> float:
        """Seed 0."""
        track, file, name, data, options = METHODS[case]
        instance = instances.load(data_file(data), track, **options)
        (method,) = [found for found in load_file(SOLVERS / track / file) if found.name == name]
        run = LocalRun(seed=0, timeout=100.0)
        solution = method.function(instance, run, **method.params)
        last = run.solutions[-1] if run.solutions else solution
        verdict = verify(instance, json.loads(json.dumps(last, default=lambda array: array.tolist())))
        assert verdict.cost is not None
        return float(verdict.cost) / float(instance.summary()["simple_bound"]) - 1

    track_gap.unit = "cost / bound - 1"  # type: ignore[attr-defined]
