"""How near the yardstick predicts the times of solvers on a machine that is half as fast: half of a CPU's time.

Each solver runs on a whole CPU, and with half of a CPU's time and twice the limit; compared are the times to the least
cost that both runs reach. Needs control groups of CPU time that can be written, as root has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shardmark.harness.campaign.yardstick import speed
from shardmark.harness.results.database import Store

LIMIT = 8  # seconds of a run on the whole CPU
PERIOD_US = 20_000
SHARES = 200_000  # so that other programs do not disturb
WITHIN = 0.2  # of the measured time
#: Track, solver and instance, two per track; none searches for a time that depends on its limit, or by several engines.
CASES = (
    ("pipeline", "random-10000", "block-model-200"),
    ("pipeline", "brkga-10000", "block-model-200"),
    ("placement", "search", "training-200"),
    ("placement", "ip-contiguous", "operators-60-acyclic"),
    ("scheduling", "memory-first", "dataflow-60-reserved"),
    ("scheduling", "heft-fifo", "dataflow-200"),
    ("intraop", "cfn-native", "sharded-u-net-4"),
    ("intraop", "greedy", "sharded-transformer-128"),
    ("hybrid", "search", "hybrid-operators-2000"),
    ("hybrid", "dp", "hybrid-transformer-12"),
)
MEASURED = "import json; from shardmark.harness.campaign.yardstick import measured; print(json.dumps(dict(measured())))"


@pytest.fixture
def groups() -> Iterator[dict[float, Path]]:
    """Control groups with a whole CPU's time and with half of it, by the share."""
    root = Path("/sys/fs/cgroup/cpu")
    made = {share: root / f"shardmark-{os.getpid()}-{share}" for share in (1.0, 0.5)}
    try:
        for share, group in made.items():
            group.mkdir()
            (group / "cpu.shares").write_text(str(SHARES))
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
    except OSError as error:
        pytest.skip(f"no control groups of CPU time: {error}")
    yield made
    for group in made.values():
        group.rmdir()


def inside(group: Path, *command: str) -> str:
    """Return the output of a program in a control group."""
    enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
    return subprocess.run([*enter, *command], check=True, capture_output=True, text=True).stdout


def solutions(group: Path, folder: Path, case: tuple[str, str, str], limit: float) -> list[tuple[float, float]]:
    """Return the times and costs of the solutions of a run."""
    track, solver, instance = case
    limits = ["--timeout", str(limit), "--limits", "posix", "--against", "none", "--quiet"]
    run = [sys.executable, "-m", "shardmark", "run", "-i", instance, "--track", track, "-s", solver]
    inside(group, *run, *limits, "--results", str(folder))
    with closing(Store.open(folder)) as store:
        found = store.select("incumbents", ("time_s", "feasible", "cost"))
    return [(time_s, float(cost)) for time_s, feasible, cost in found if feasible and cost is not None]


def test_times_are_predicted_within_20_percent_for_8_of_10_solvers(groups: dict[float, Path], tmp_path: Path) -> None:
    yardsticks = {share: json.loads(inside(group, sys.executable, "-c", MEASURED)) for share, group in groups.items()}
    factor = speed(yardsticks[0.5], yardsticks[1.0])
    print(f"half of a CPU is {factor:.2f} times as fast: {yardsticks}")
    near = 0
    for case in CASES:
        found = {
            share: solutions(group, tmp_path / f"{case[0]}-{case[1]}-{share}", case, LIMIT / share)
            for share, group in groups.items()
        }
        cost = max(min(cost for _, cost in runs) for runs in found.values())
        times = {share: min(time_s for time_s, reached in runs if reached <= cost) for share, runs in found.items()}
        predicted, measured = times[1.0] / factor, times[0.5]
        near += abs(predicted - measured) <= WITHIN * measured
        print(f"{' '.join(case)}: {times[1.0]:.3f} s, predicted {predicted:.3f} s, measured {measured:.3f} s")
    assert near >= 8
