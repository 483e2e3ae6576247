"""Builds a site again and again in forks of itself, from two results folders in turn, and kills them.

``python site_driver.py RESULTS OTHER_RESULTS SITE KILLS``. After each kill the site has to be whole; a last fork is
left alone. A fork has everything imported already: what is killed is the command, not the start of Python.
"""

import random
import signal
import sys
import time
from itertools import cycle
from pathlib import Path

from shardmark.cli import arguments
from shardmark.harness.records import certificates
from shardmark.harness.records.best import best_known
from shardmark.harness.results import ranking  # noqa: F401 polars begins its threads when it is first used, in the forks
from shardmark.leaderboard.build import STAGE
from tests.leaderboard.sites import add_foreign, forked, own, problems


def main(results: str, other: str, site: str, kills: str) -> int:
    """Build, kill and look; 0 if the site was whole at all times."""
    folder, chance = Path(site), random.Random(0)
    commands = [["leaderboard", "--results", place, "--output", site, "--json"] for place in (results, other)]
    folder.mkdir()
    for record in best_known():
        certificates.grade(record)  # reads their certificates, once for all forks
    versions, lengths = [], []
    for command in (*commands, *commands):  # twice, since the first finds nothing to replace
        began = time.monotonic()
        if forked(lambda command=command: ended_well(command)):
            return 1
        lengths.append(time.monotonic() - began)
        add_foreign(folder)
        versions = [*versions[-1:], own(folder)]
    killed = staged = mixed = 0
    for command in cycle(commands):
        kill = (
            {"seconds": chance.uniform(0, max(lengths))}
            if chance.random() < 0.4
            else {"operation": chance.randrange(300)}
        )
        status = forked(lambda command=command: ended_well(command), **kill)
        if found := problems(folder, versions):
            print(f"after {kill}: {'; '.join(found[:5])}", file=sys.stderr)
            return 1
        killed += status == -signal.SIGKILL
        staged += (folder / STAGE).exists()
        mixed += own(folder) not in versions
        if killed == int(kills):
            break
    if forked(lambda: ended_well(commands[0])) or own(folder) != versions[0] or (folder / STAGE).exists():
        return 1
    print(f"{killed} kills of a site's build, {staged} of them left files aside, {mixed} a mix of two whole builds")
    return 0


def ended_well(command: list[str]) -> None:
    """Carry out a command in this process; an error if it did not work."""
    sys.stdout = sys.stderr
    if arguments.main(command):
        raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
