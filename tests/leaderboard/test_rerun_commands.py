"""The commands on pages of instances: they parse, and repeat the runs of their rows."""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ET
from contextlib import closing

import pytest

from shardmark.cli.arguments import main, parser
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import tables
from shardmark.instances import catalog
from shardmark.leaderboard.pages import instance
from shardmark.leaderboard.pages.site import Site

RUNS = (
    ["-i", "crossing", "--objective", "latency", "-s", "one-accelerator", "--cpu", "30"],
    ["-i", "crossing", "--objective", "latency", "-s", "critical-path", "--memory-limit", "1500.5"],
    ["-i", "chain", "-s", "halves", "-s", "random-1", "--solver-path", "halves.py"],
    ["-i", "a copy/sandwich-free", "--contiguity", "acyclic", "-s", "pipedream", "--set", "light=0.25", "-t", "20"],
)

HALVES = """
from shardmark import solver


@solver(track="pipeline")
def halves(instance, run):
    run.report([0] * instance.nodes)
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, posix_for_auto: None) -> dict[str, list[str]]:
    """Return the commands on the page of each instance of a few real runs."""
    folder = tmp_path_factory.mktemp("results")
    copy = folder / "a copy" / "sandwich-free"  # the name of an entry, but not its content
    copy.parent.mkdir()
    copy.write_bytes(catalog.locate(catalog.find("crossing")).read_bytes())
    own = folder / "halves.py"
    own.write_text(HALVES)
    for words in RUNS:
        given = [word.replace("a copy", str(copy.parent)).replace("halves.py", str(own)) for word in words]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["shardmark", "run", *given])  # as it is stored
            assert main(["run", *given, "--seeds", "1", "--results", str(folder / "results"), "--json"]) == 0
    with closing(Store.open(folder / "results")) as store:
        found = {}
        for path, page in instance.pages(Site(tables(store))):
            lines = ET.fromstring(page.partition("\n")[2]).findall(".//pre")[-1].text or ""
            found[path.rpartition("/")[2]] = lines.split("\n")
        return found | {"copy": [str(copy)]}


def test_commands_name_instance_options_method_parameters_and_limits(commands: dict[str, list[str]]) -> None:
    bound, solver = sorted(commands["crossing.html"])
    at = "crossing --objective latency"
    assert bound == f"shardmark bound {at} --method critical-path --timeout 2 --memory-limit 1500.5 --seed 0"
    assert solver == f"shardmark solve {at} --solver one-accelerator --timeout 2 --cpu 30 --seed 0"
    (local,) = commands["sandwich-free.html"]
    method = "--solver pipedream --set light=0.25"
    assert local == f"shardmark solve FILE --track placement --contiguity acyclic {method} --timeout 20 --seed 0"
    for line in (bound, solver, local):
        parser().parse_args(shlex.split(line)[1:])


def test_only_methods_from_elsewhere_need_the_path_of_their_file(commands: dict[str, list[str]]) -> None:
    halves, random = sorted(commands["chain.html"])
    assert "--solver halves --solver-path " in halves
    assert "--solver random-1 --timeout " in random


def test_a_command_repeats_its_run(commands: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    (line,), (copy,) = commands["sandwich-free.html"], commands["copy"]
    capsys.readouterr()
    assert main([*shlex.split(line.replace("FILE", shlex.quote(copy)))[1:], "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["contiguity"], answer["solver"]) == ("acyclic", "pipedream[light=0.25]")
    assert answer["cost"] is not None
