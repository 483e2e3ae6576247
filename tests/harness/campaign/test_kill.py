"""Kill -9 of the harness, anywhere: stored runs are complete, others are repeated, nothing is left behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from effort import draws
from marked import Marked, ended

HERE = Path(__file__).parent
KILLS = int(os.environ.get("SHARDMARK_KILLS", str(draws(2, 2, 4))))  # make measure: 100
SEEDS = draws(6, 6, 12) + KILLS // 5  # of three solvers: more runs than are done before the last kills
TABLE = "SELECT solver, instance, seed, status, reason, cost, lower_bound, solution FROM runs ORDER BY solver, seed"
PARTS = """
SELECT (SELECT count(*) FROM incumbents WHERE run = id), (SELECT count(*) FROM bounds WHERE run = id),
  (SELECT count(*) FROM instances i WHERE i.checksum = r.checksum), (SELECT count(*) FROM solvers s WHERE
  s.track = r.track AND s.name = r.solver AND s.hash = r.solver_hash) FROM runs r ORDER BY solver, seed
"""


@pytest.fixture
def marked(tmp_path):
    marked = Marked(tmp_path)
    yield marked
    marked.end()
    assert list(marked.scratch.iterdir()) == []


def ask(results, query):
    with closing(sqlite3.connect(results / "results.sqlite")) as database:
        return database.execute(query).fetchall()


def check_same(disturbed, undisturbed):
    """Check that every run is there once and complete, as if nothing had happened."""
    assert ask(disturbed, "PRAGMA integrity_check") == [("ok",)]
    assert ask(disturbed, "PRAGMA foreign_key_check") == []
    assert ask(disturbed, TABLE) == ask(undisturbed, TABLE)
    assert ask(disturbed, PARTS) == ask(undisturbed, PARTS)


@pytest.mark.gate
def test_a_campaign_killed_repeatedly_ends_like_an_undisturbed_one(marked, chain, tmp_path):
    ends = {}
    for name, kills in (("undisturbed", 0), ("disturbed", KILLS)):
        command = [str(HERE / "kill_driver.py"), str(tmp_path / name), str(chain.path), str(SEEDS), str(kills)]
        ends[name] = ended(marked.start(*command), 240)[0]
    assert ends == {"undisturbed": 0, "disturbed": 0}
    check_same(tmp_path / "disturbed", tmp_path / "undisturbed")
    assert len(ask(tmp_path / "disturbed", TABLE)) == 3 * SEEDS
    query = "SELECT ended IS NOT NULL, (SELECT count(*) FROM runs WHERE campaign = c.id) FROM campaigns c"
    began = ask(tmp_path / "disturbed", query)
    assert len(began) > KILLS / 10  # others were killed before they began
    assert began[-1][0] == 1
    assert sum(done > 0 for _, done in began) >= 2


@pytest.mark.gate
def test_the_command_resumes_where_it_was_killed(marked, chain, tmp_path):
    # Four runs of less than a minute in all, so that their machine is not measured first.
    command = ["-m", "shardmark", "run", "--instance", str(chain.path), "--quiet", "--limits", "posix"]
    command += ["--timeout", "14", "--seeds", "2", "--solver", "quick", "--solver", "fails"]
    command += ["--solver-path", str(HERE / "campaign_solvers.py")]
    run = marked.start(*command, "--results", str(tmp_path / "disturbed"))
    time.sleep(1.0)
    run.kill()
    assert ended(run)[0] in (3, -signal.SIGKILL)  # a solver of it fails
    for name in ("disturbed", "undisturbed"):
        assert ended(marked.start(*command, "--results", str(tmp_path / name)))[0] == 3
    check_same(tmp_path / "disturbed", tmp_path / "undisturbed")
    assert len(ask(tmp_path / "disturbed", TABLE)) == 4
