"""Processes of a Dask scheduler, of workers and of campaigns, killed and stopped at will."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import psutil
from marked import Marked, until

SOLVERS = Path(__file__).parents[1] / "harness" / "campaign" / "campaign_solvers.py"
TABLE = "SELECT solver, instance, seed, status, cost, lower_bound FROM runs ORDER BY solver, seed"


class Cluster(Marked):
    """A scheduler and workers."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", **settings: str) -> None:
        super().__init__(folder, **settings)
        file = folder / "scheduler.json"
        options = ["--host", host, "--port", "0", "--scheduler-file", str(file)]
        options += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        self.scheduler = self.start("-m", "distributed.cli.dask_scheduler", *options)
        self.address = until(lambda: file.exists() and file.read_text() and json.loads(file.read_text())["address"])

    def workers(self, *names: str) -> list[subprocess.Popen[str]]:
        """Start workers at the same time, each under the name of a machine; wait until they have joined."""
        command = ["-m", "shardmark", "worker", "--scheduler", self.address, "--limits", "posix", "--name"]
        started = [self.start(*command, name, stderr=subprocess.PIPE) for name in names]
        for process in started:
            line = process.stderr.readline()
            assert "carries out runs" in line, line + process.stderr.read()
        return started

    def campaign(self, results, *options):
        command = campaign_of(results, *options, "--executor", "dask", "--scheduler", self.address)
        return self.start("-m", "shardmark", *command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self):
        """Tell the workers to leave, then end the scheduler."""
        for process in reversed(self.started):
            process.terminate()
        super().end()


def campaign_of(results, *options):
    """Return the arguments of a campaign of `SOLVERS`."""
    return ["run", "--solver-path", str(SOLVERS), "--results", str(results), *map(str, options)]


def runs_under(process):
    """Return the processes of the run under way at a worker; none while its supervisor has at most a fork server."""
    try:
        supervisors = psutil.Process(process.pid).children()
        started = [run for supervisor in supervisors for run in supervisor.children(recursive=True)]
        return started if len(started) > 1 else []
    except psutil.NoSuchProcess:
        return []


def table(results, query=TABLE):
    """Return rows of a campaign's database, none before it has been created."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{results / 'results.sqlite'}?mode=ro", uri=True)) as database,
    ):
        return database.execute(query).fetchall()
    return []
