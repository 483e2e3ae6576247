"""Kill -9 of whatever writes a site, anywhere: whole pages that lead to whole pages, and nothing of others is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from shardmark.harness.results.database import Store
from shardmark.leaderboard.build import INDEX, STAGE, File, held, publish
from tests.leaderboard.conftest import HOST, Filler
from tests.leaderboard.sites import FOREIGN, add_foreign, files, forked, own, problems

pytestmark = pytest.mark.gate(cases=1)

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SHARDMARK_KILLS", "1"))  # make measure: 100
LONGEST_S = 1800.0


def a_site(version: str, *pages: str) -> list[File]:
    """Pages that all lead to each other and to a style sheet, and say of which version they are."""
    paths = ("static/style.css", INDEX, *pages)
    return [(path, version + "".join(f'<a href="{"../" * path.count("/")}{to}">' for to in paths)) for path in paths]


def write(site: Path, made: list[File], *, keep: bool = False) -> None:
    """Write a site as the commands do."""
    with held(site):
        publish(site, iter(made), keep=keep)


OLD = a_site("old", "tracks/a.html", "tracks/b.html", "instances/b/x.html", "instances/b/y.html")
NEW = a_site("new", "tracks/a.html", "tracks/c.html", "instances/c/x.html")
PAGE = [*a_site("page", "reproduce/index.html"), ("reproduce/table.html", "page")]


@pytest.mark.gate
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize(
    ("before", "then", "keep"),
    [(None, NEW, False), (OLD, NEW, False), (OLD, PAGE, True), (None, PAGE, True)],
    ids=["first", "next", "a reproduction", "a first reproduction"],
)
def test_a_kill_before_any_change_of_a_file_leaves_a_whole_site(
    before: list[File] | None, then: list[File], keep: bool, tmp_path: Path
) -> None:
    start, expected, site = (tmp_path / name for name in ("start", "expected", "site"))
    start.mkdir()
    if before:
        write(start, before)
        add_foreign(start)
    shutil.copytree(start, expected)
    write(expected, then, keep=keep)
    versions, foreign = (
        [own(place) for place in (start, expected) if (place / INDEX).exists()],
        FOREIGN if before else {},
    )
    for operation in count(1):
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(start, site)
        status = forked(lambda: write(site, then, keep=keep), operation=operation)
        assert status in (0, -signal.SIGKILL)
        if before or (site / INDEX).exists():
            assert problems(site, versions, foreign) == []
        write(site, then, keep=keep)  # the next one takes away what the kill has left
        assert files(site) == files(expected)
        if status == 0:
            break
    assert operation > 10
    assert not (site / STAGE).exists()


@pytest.mark.gate
@pytest.mark.thorough
def test_a_site_whose_builds_are_killed_is_whole_at_all_times(tmp_path: Path) -> None:
    folders = [a_folder(tmp_path / track, track) for track in ("placement", "intraop")]
    what = ["tests.leaderboard.site_driver", *map(str, folders), str(tmp_path / "site"), str(KILLS)]
    command = [sys.executable, "-m", *what]
    ran = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=LONGEST_S)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.startswith(f"{KILLS} kills of a site's build, ")
    print(ran.stdout)


def a_folder(path: Path, track: str) -> Path:
    """A results folder with one track of the made-up database."""
    store = Store.open(path, create=True)
    with store.transaction():
        number = store.add_campaign("2025-11-20T06:00:00+00:00", ["shardmark", "run"], "0.1.0", HOST)
        Filler(store, number, track).fill()
    store.close()
    return path
