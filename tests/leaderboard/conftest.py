"""A made-up results database with everything a page has to cope with, filled the way the harness fills one."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.results.records import Bound, Incumbent, Record, decimal

HOSTILE = "<script>alert('x')</script> & \"quoted\""
HOST = {
    "cpu": "Example Processor 3000 <b>",
    "cores": 2,
    "memory_mib": 24000,
    "os": "Linux 6.1",
    "python": "3.11.9",
    "packages": {"numpy": "2.4.6", "pytoulbar2": "1.4.1", "ortools": None},
}

#: name -> (how far from the best it ends, how much of the time it takes, seeds)
SOLVERS = {
    "intraop": {
        "cfn-penalty": (0.0, 0.5, 2),
        "greedy": (0.18, 0.05, 1),
        "random": (3.0, 0.9, 2),
        HOSTILE: (0.6, 0.7, 1),
    },
    "pipeline": {
        "brkga-10000": (0.0, 0.95, 2),
        "brkga-100": (0.004, 0.1, 2),
        "random-10000": (0.02, 0.9, 2),
        "random-100": (0.06, 0.05, 2),
        "random-1": (0.3, 0.01, 2),
        "moves": (0.01, 0.4, 1),
        "merge": (0.03, 0.2, 1),
        "single-block": (1.4, 0.01, 1),
    },
    "placement": {
        "dp": (0.0, 0.3, 1),
        "search": (0.01, 0.9, 1),
        "one-accelerator": (0.5, 0.01, 1),
        "picky": (0.0, 0.1, 1),
    },
}
#: name -> (how far below the best its bound ends, how much of the time it takes)
BOUNDS = {
    "intraop": {"simple": (0.4, 0.01), "relaxation": (0.01, 0.6)},
    "pipeline": {"simple": (0.35, 0.01), "bottleneck": (0.2, 0.5), "exact": (0.06, 0.9), "anchored": (0.1, 0.3)},
    "placement": {"load": (0.1, 0.01), "critical-path": (0.3, 0.02)},
}
#: Options that divide the instances of a track, by the ends of their names.
MODES: dict[str, dict[str, Any]] = {
    "plain": {"objective": "throughput", "contiguity": "contiguous", "memory": 16.0},
    "acyclic": {"contiguity": "acyclic"},
    "free": {"contiguity": "free"},
    "latency": {"objective": "latency"},
    "half": {"overlap": "half", "cluster": 2, "slowdown": 4.0},
}
#: name -> best cost
INSTANCES: dict[str, dict[str, int | float]] = {
    "intraop": {
        "chain-8": 12,
        "free": 0,
        "contest-G": 217039,
        "gemma-like": 49_928_460_991,
        "u-net-like": 1_521_949_307,
        "beyond-64-bits": 2_000_002_876_201_781_401_777,
        "Ein Name/../with <i>HTML</i>.json": 532843,
        "tight": 880,
    },
    "pipeline": {f"regal-{i:02d}-k{k}": 10.0 + 3.7 * i * k for i, k in itertools.product(range(5), (2, 8))},
    "placement": {f"{name}-{mode}": 7.5 + len(mode) for mode in MODES for name in ("bert", "gnmt")},
}
#: solver, instance number -> (status, reason); every status there is
FAILURES = {
    ("random", 0): ("timeout", "was still running when its time was up"),
    ("random", 1): ("memory", "its processes used 1,031 MiB of 1,024 MiB"),
    ("random", 2): ("crash", "ended by signal 11 (SIGSEGV)"),
    ("greedy", 3): ("error", f"ValueError: {HOSTILE}"),
    ("greedy", 4): ("infeasible", "memory at time step 17 is 1,200 of 1,000"),
    (HOSTILE, 5): ("none", "reported no solution"),
    (HOSTILE, 6): ("import", "its file cannot be imported: No module named 'missing'"),
    ("greedy", 6): ("contradiction", "claims a lower bound above the cost of its own solution"),
    ("moves", 0): ("declined", "takes graphs of at most 10 nodes"),
    ("merge", 1): ("timeout", "was still running when its time was up"),
    ("merge", 2): ("cpu", "used 3.1 s of CPU time, the limit is 3 s"),
    ("merge", 3): ("processes", "had 513 processes at once, the limit is 512"),
    ("merge", 4): ("output", "wrote more than 256 MiB to its pipes"),
    ("merge", 5): ("lost", "the worker on example-2 went away"),
    ("merge", 6): ("misclaim", "claims the cost 1.5 for a solution of cost 32.2"),
    **{("dp", at): ("declined", "is for splits in a row") for at in range(4, 10)},
    **{("search", at): ("declined", "is for free sets") for at in (0, 1, 2, 3, 6, 7, 8, 9)},
    **{("picky", at): ("declined", "takes nothing") for at in range(10)},
    ("one-accelerator", 6): ("declined", "does not fit its memory"),
    **{("load", at): ("declined", "is for throughput") for at in (6, 7)},
    **{("critical-path", at): ("declined", "is for latency") for at in (0, 1, 2, 3, 4, 5, 8, 9)},
}
LOG = f"the beginning\n{'a line' * 3}\n" + "\n" * 40 + f"\x1b[31m{HOSTILE}\x1b[0m\n\x00the end\n"
WITHOUT_ANSWER = {"memory", "crash", "error", "infeasible", "none", "import", "declined", "lost", "output"}
BY_ITSELF = {"ok", "infeasible", "none", "contradiction", "misclaim"}
ENFORCED = {
    **dict.fromkeys(("wall", "cores"), "hard"),
    **dict.fromkeys(("cpu", "memory", "processes", "output"), "polled"),
    **dict.fromkeys(("network", "files"), "none"),
}


class Filler:
    """Writes the runs of one track, always the same."""

    limit = 2.0

    def __init__(self, store: Store, campaign: int, track: str) -> None:
        self.store, self.campaign, self.track = store, campaign, track
        self.rng = random.Random(track)

    def number(self, value: float, of: int | float) -> int | float:
        """A cost of the kind that ``of`` is."""
        return round(value) if isinstance(of, int) else float(f"{value:.6f}")

    def descent(self, best: int | float, far: float, slow: float, limit: float) -> list[Incumbent]:
        """Incumbents that come down to ``far`` above the best."""
        final = best if far == 0 else self.number(best * (1 + far) + math.ceil(far - 0.001), best)
        steps = 1 if slow < 0.03 else 3 + int(11 * self.rng.random())
        times = sorted((0.05 + 0.95 * self.rng.random()) ** 2 * slow * limit + 0.03 for _ in range(steps))
        above = sorted(((1.2 * self.rng.random()) ** 3 for _ in range(steps - 1)), reverse=True)
        costs = [*(final + self.number(a * (best or 40), best) for a in above), final]
        return [Incumbent(round(t, 4), True, c) for t, c in zip(times, costs, strict=True)]

    def solve(self, solver: str, far: float, slow: float, seed: int, at: int, instance: str, best: int | float) -> None:
        """One run of a solver."""
        status, reason = FAILURES.get((solver, at), ("ok", "")) if seed == 0 else ("ok", "")
        jitter = 0.6 + 0.9 * self.rng.random() if far else 0.0005 * (self.rng.random() > 0.7)
        found = self.descent(best, far * jitter if far else jitter, slow, self.limit)
        if status == "infeasible":
            found = [Incumbent(i.time_s, False, i.cost) for i in found]
        elif status in WITHOUT_ANSWER:
            found = []
        cost = found[-1].cost if found and found[-1].feasible else None
        bounds = [Bound(found[-1].time_s + 0.01, best)] if solver == "cfn-penalty" and at in (0, 2) else []
        if status == "contradiction":
            bounds = [Bound(found[-1].time_s, 2 * best)]
        self.add(solver, "solver", seed, instance, status, reason, cost, found, bounds)

    def bound(self, method: str, below: float, slow: float, at: int, instance: str, best: int | float) -> None:
        """One run of a bound method; the third instance of every track has one that is wrong."""
        final = self.number(best * (1 - below * (0.4 + 0.8 * self.rng.random())), best)
        if method in ("relaxation", "anchored") and at == 2:
            final = self.number(best * 1.02, best)
        if method == "exact" and at < 4:
            final = best
        steps = 1 if slow < 0.03 else 5
        bounds = [
            Bound(
                round(0.02 + slow * self.limit * (i + 1) / steps, 4),
                self.number(final * (0.6 + 0.4 * (i + 1) / steps), best),
            )
            for i in range(steps - 1)
        ]
        bounds.append(Bound(round(0.02 + slow * self.limit, 4), final))
        status, reason = FAILURES.get((method, at), ("ok", ""))
        self.add(method, "bound", 0, instance, status, reason, None, [], bounds if status == "ok" else [])

    def add(
        self,
        solver: str,
        kind: str,
        seed: int,
        instance: str,
        status: str,
        reason: str,
        cost: int | float | None,
        incumbents: list[Incumbent],
        bounds: list[Bound],
    ) -> None:
        """Store a run."""
        checksum = f"{self.track}-{instance}"
        self.store.add_run(
            self.campaign,
            Record(
                id=f"{checksum} {solver} {seed}",
                track=self.track,
                instance=instance,
                checksum=checksum,
                solver=solver,
                kind=kind,
                solver_hash=f"{len(solver):02x}" * 32,
                seed=seed,
                memory_mib=1024.0,
                cores=1,
                timeout_s=10.0 if instance == "tight" and solver == "greedy" else self.limit,
                started="2025-11-21T06:00:00.000+00:00",
                stop="exit" if status in BY_ITSELF else status,
                status=status,
                reason=reason,
                cost=cost,
                lower_bound=max((b.value for b in bounds), default=None),
                wall_s=round(0.2 + 1.8 * self.rng.random(), 3),
                cpu_s=0.9,
                peak_mib=round(40 + 860 * self.rng.random(), 1),
                solution=None,
                log="" if status == "ok" else LOG,
                **self.facts(solver, status, cost, incumbents, bounds),
                incumbents=incumbents,
                bounds=bounds,
            ),
        )

    def facts(
        self, solver: str, status: str, cost: int | float | None, incumbents: list[Incumbent], bounds: list[Bound]
    ) -> dict[str, Any]:
        """Optional columns of a run; not recorded for one solver."""
        if solver == "random-1":
            return {}
        claims = 1.5 if status == "misclaim" else cost if solver.startswith("brkga") else None
        end = status if status in ("error", "declined") else "done" if status in BY_ITSELF else "nothing"
        reported = {"solutions": len(incumbents), "bounds": len(bounds)}
        found = "feasible" if cost is not None else "infeasible" if incumbents else "nothing"
        return {
            "cpu_limit_s": 3.0,
            "processes": 512,
            "output_mib": 256.0,
            "backend": "" if status == "import" else "benchexec" if solver == "exact" else "posix",
            "enforced": {} if status == "import" else ENFORCED,
            "co_runners": 1,
            "host": "example-2" if self.track == "pipeline" and solver == "merge" else "",
            "claimed": {
                "end": end,
                "cost": decimal(claims),
                "lower_bound": decimal(max((b.value for b in bounds), default=None)),
                **reported,
            },
            "verified": found,
        }

    def fill(self) -> None:
        """All of the track."""
        for name in SOLVERS[self.track]:
            self.declare(name, "solver")
        for name in BOUNDS[self.track]:
            self.declare(name, "bound")
        for at, (instance, best) in enumerate(INSTANCES[self.track].items()):
            published: dict[str, Any] = {}
            if instance == "gemma-like":
                published = {"best_cost": str(best - 31_000_000), "lower_bound": "49407421919.12598"}
                published["source"] = "Table 5 of a paper, https://doi.org/10.1145/3676642.3736399"
            if instance == "contest-G":
                published = {"best_cost": "217039", "lower_bound": "217039"}
            summary = {"track": self.track, "name": instance, "nodes": 8 * (at + 1) ** 3, "edges": 11 * (at + 1) ** 3}
            summary |= {"largest_degree": at + 2, "memory": None, "simple_bound": 0.6 * best}
            if self.track == "placement":
                summary |= MODES[instance.rpartition("-")[2]]
            self.store.add_instance(f"{self.track}-{instance}", instance, self.track, summary, published)
            for solver, (far, slow, seeds) in SOLVERS[self.track].items():
                if solver == "single-block" and at > 6:
                    continue  # as after an interrupted campaign
                for seed in range(seeds):
                    self.solve(solver, far, slow, seed, at, instance, best)
            for method, (below, slow) in BOUNDS[self.track].items():
                self.bound(method, below, slow, at, instance, best)

    def declare(self, name: str, kind: str) -> None:
        """Store what a solver says of itself."""
        source = f"Somebody et al., 2024, Algorithm 2, https://doi.org/10.1145/3676642.3736399 {HOSTILE}"
        params = {"population": 100, "rate": 0.25} if name.startswith("brkga") else {}
        about = f"Do what {name} does best."
        self.store.add_solver(f"{len(name):02x}" * 32, self.track, name, kind, source, about, params)


@contextmanager
def filled(folder: Path, track: str) -> Iterator[Filler]:
    """Fills one track of an empty database, in one campaign."""
    with closing(Store.open(folder / "results", create=True)) as store:
        yield Filler(store, store.add_campaign("2025-11-21T06:00:00+00:00", ["shardmark", "run"], "0.1.0", HOST), track)


def fill(store: Store) -> None:
    """The whole database: three tracks, one campaign that counts and an older one that does not."""
    store.add_campaign("2025-11-20T06:00:00+00:00", ["shardmark", "run"], "0.1.0", HOST)
    when = "2025-11-21T06:00:00+00:00"
    campaign = store.add_campaign(when, ["shardmark", "run"], "0.1.0", HOST, executor="dask", jobs=2)
    store.add_host(campaign, "example-2", HOST | {"kernel": "Linux 6.1", "governor": "performance", "turbo": False})
    for track in SOLVERS:
        Filler(store, campaign, track).fill()
    hot = "The processor slowed down for heat: cpu0, cpu1."
    store.end_campaign(campaign, "2025-11-21T08:30:00+00:00", {"": [], "example-2": [hot, f"{HOSTILE}."]})


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The made-up database."""
    store = Store.open(tmp_path_factory.mktemp("results"), create=True)
    fill(store)
    yield store
    store.close()


@pytest.fixture(scope="session")
def scored(stored: Store) -> Tables:
    """Tables of the made-up database; what tracks are is worded here, so that pages stay the same when it changes."""
    about = {
        "intraop": "one strategy per operator.",
        "pipeline": "at most k stages.",
        "placement": "a device per operator.",
    }
    return dataclasses.replace(tables(stored), tracks=about)
