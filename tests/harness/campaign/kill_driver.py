"""Carries out a campaign in forks of itself, each killed at a random moment, KILLS times.

``python kill_driver.py RESULTS INSTANCE SEEDS KILLS``; the last fork ends by itself. A fork has everything
imported already, so the kills hit the campaign, not the start of Python.
"""

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from shardmark.harness.campaign.discover import declared_in
from shardmark.harness.campaign.jobs import Job
from shardmark.harness.campaign.local_executor import LocalExecutor
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.campaign.queue import campaign
from shardmark.harness.results.database import Store, exclusive
from shardmark.harness.sandbox.contract import Limits

SOLVERS = ("quick", "fails", "limit")
LIMITS = Limits(20.0, 512.0)
LONGEST_S = 0.6  # most seconds until a kill; a supervisor starts in about a third of that
STATEMENTS = 180  # most SQL statements until a kill


def main(results: str, instance: str, seeds: str, kills: str) -> int:
    """Kill and resume; return the exit status of the fork that was left alone."""
    chance = random.Random(0)
    infos = [info for info in declared_in(Path(__file__).with_name("campaign_solvers.py")) if info.name in SOLVERS]
    problem = Problem("chain", Path(instance), "pipeline")
    jobs = [Job(info, problem, seed, LIMITS) for info in infos for seed in range(int(seeds))]
    for number in range(int(kills)):
        if number % 4:
            end = fork(results, jobs, seconds=chance.uniform(0, LONGEST_S))
        else:
            end = fork(results, jobs, statements=chance.randrange(STATEMENTS))
        if end not in (0, -signal.SIGKILL):
            return 1
    return fork(results, jobs)


def fork(results: str, jobs: list[Job], seconds: float = 0.0, statements: int = 0) -> int:
    """Carry out the campaign in a fork, killed after ``seconds`` or at its ``statements``-th SQL statement."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = resume(results, jobs, statements)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if seconds:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def resume(results: str, jobs: list[Job], statements: int) -> int:
    """Run a campaign as `shardmark run` does, with its options given as arguments."""
    with exclusive(results):
        store = Store.open(results, create=True)
        if statements:
            store.connection.set_trace_callback(Countdown(statements))
        finished = store.finished()
        todo = [job for job in jobs if job.id not in finished]
        number = store.add_campaign("now", ["test"], "0", {}, [job.id for job in jobs])
        signal_number = campaign(store, number, todo, LocalExecutor(1, 1), None)
        store.close()
    return 2 if signal_number else 0


class Countdown:
    """Kills its process when called for the last of ``calls`` times."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, _: str) -> None:
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
