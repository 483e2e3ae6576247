"""The site of a generated results database: solvers x instances x seeds of one track.

``python -m tests.performance.large_site [FOLDER]`` generates 200 x 500 x 3 runs in a new folder and prints seconds,
peak memory, and the number and sizes of the files of their site.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
import zlib
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import tables
from shardmark.leaderboard.build import build
from tests.leaderboard.conftest import ENFORCED, HOST

TRACK = "pipeline"
LIMIT = 60.0  # seconds of a run
FAILED = 0.03  # share of runs that end badly, with a log
BEGAN = "2025-11-21T06:00:00+00:00"
#: Status and reason of the runs that end badly, in turn.
ENDS = (
    ("timeout", "was still running when its time was up"),
    ("memory", "its processes used 1,031 MiB of 1,024 MiB"),
    ("error", "ValueError: the graph has a cycle"),
)
LOG = "".join(f"iteration {step}: cost {1000 - step}\n" for step in range(20)) + "Traceback: seed "

Row = dict[str, Any]


def generate(folder: Path, solvers: int, instances: int, seeds: int) -> Path:
    """Fill the results folder; every twentieth solver is a bound method, a few runs end badly."""
    with closing(Store.open(folder, create=True)) as store, store.transaction() as db:
        campaign = store.add_campaign(BEGAN, ["shardmark", "run"], "0.1.0", HOST, executor="dask", jobs=8)
        for at in range(instances):
            summary = {"track": TRACK, "name": _instance(at), "nodes": 50 + at, "edges": 70 + 2 * at, "stages": 4}
            store.add_instance(_checksum(at), _instance(at), TRACK, summary, {})
        for at in range(solvers):
            about = f"Do what method {at} of the literature does."
            facts = ("Somebody et al., 2024, Algorithm 2", about, {"population": at})
            store.add_solver(_version(at), TRACK, _solver(at), _kind(at), *facts)
        for solver, instance, seed in product(range(solvers), range(instances), range(seeds)):
            run, found, proved = _run(solver, instance, seed)
            run["campaign"] = campaign
            db.execute(f"INSERT INTO runs ({', '.join(run)}) VALUES ({', '.join(':' + key for key in run)})", run)
            db.executemany("INSERT INTO incumbents VALUES (?, ?, ?, 1, ?, ?)", found)
            db.executemany("INSERT INTO bounds VALUES (?, ?, ?, ?, ?)", proved)
    return folder


def _instance(at: int) -> str:
    return f"graph-{at:03d}-k4"


def _checksum(at: int) -> str:
    return f"{at:064x}"


def _kind(solver: int) -> str:
    return "bound" if solver % 20 == 19 else "solver"


def _solver(at: int) -> str:
    return f"{'relaxation' if _kind(at) == 'bound' else 'search'}-{at:03d}"


def _version(at: int) -> str:
    return f"{at:04x}" * 16


def _run(solver: int, instance: int, seed: int) -> tuple[Row, list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The row of a run, and those of its incumbents and bounds."""
    rng = random.Random(f"{solver} {instance} {seed}")
    name = f"{_solver(solver)} on {_instance(instance)}, seed {seed}"
    best = 100.0 + 3.7 * instance
    bad = rng.random() < FAILED
    status, reason = rng.choice(ENDS) if bad else ("ok", "")
    times = sorted(round(LIMIT * rng.random() ** 3, 4) for _ in range(1 + int(6 * rng.random())))
    far = (solver / 100) ** 2 * (0.5 + rng.random())
    if _kind(solver) == "bound":
        values = sorted(round(best * (1 - 0.3 * rng.random()), 6) for _ in times)
        found, cost, bound = [], None, values[-1]
        proved = [(name, i, t, repr(v), v) for i, (t, v) in enumerate(zip(times, values, strict=True))]
    else:
        above = sorted((round(best * (1 + far * (1 + rng.random())), 6) for _ in times), reverse=True)
        found = [(name, i, t, repr(v), v) for i, (t, v) in enumerate(zip(times, above, strict=True))]
        cost, bound, proved = above[-1], None, []
    solution = None if cost is None else zlib.compress(json.dumps([i * 4 // 50 for i in range(50)]).encode())
    row = {
        "id": name,
        "track": TRACK,
        "instance": _instance(instance),
        "checksum": _checksum(instance),
        "solver": _solver(solver),
        "kind": _kind(solver),
        "solver_hash": _version(solver),
        "seed": seed,
        "timeout_s": LIMIT,
        "memory_mib": 1024.0,
        "cores": 1,
        "started": BEGAN,
        "status": status,
        "reason": reason,
        "stop": status if bad else "exit",
        "feasible": int(cost is not None),
        "cost": None if cost is None else repr(cost),
        "cost_float": cost,
        "lower_bound": None if bound is None else repr(bound),
        "lower_bound_float": bound,
        "wall_s": times[-1] + 0.2,
        "cpu_s": times[-1],
        "peak_mib": round(40 + 800 * rng.random(), 1),
        "solution": solution,
        "log": f"{LOG}{seed}\n" if bad else "",
        "cpu_limit_s": 65.0,
        "processes": 512,
        "output_mib": 256.0,
        "backend": "posix",
        "co_runners": 7,
        "enforced": json.dumps(ENFORCED),
        "verified": "nothing" if cost is None else "feasible",
        "claimed": json.dumps(_claim(found, proved)),
    }
    return row, found, proved


def _claim(found: list[tuple[Any, ...]], proved: list[tuple[Any, ...]]) -> Row:
    return {"end": "done", "cost": None, "lower_bound": None, "solutions": len(found), "bounds": len(proved)}


def main(folder: Path) -> None:
    """Print what the site of 300,000 runs takes."""
    generate(folder / "results", 200, 500, 3)
    began = time.perf_counter(), time.process_time()
    with closing(Store.open(folder / "results")) as store:
        site = build(tables(store), folder / "site").parent
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    sizes = {path: path.stat().st_size for path in site.rglob("*") if path.is_file()}
    pages = [size for path, size in sizes.items() if path.suffix == ".html"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{wall:.0f} s, {cpu:.0f} s of CPU time, {peak:.0f} MiB; {len(sizes)} files, {sum(sizes.values()) / 1e6:.0f} MB"
    )
    print(f"largest page {max(pages) / 2**20:.2f} MiB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "large_site"))
