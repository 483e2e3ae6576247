"""Parameters set on the command line: which make a variant, and that every run gets them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shardmark.cli.arguments import main
from shardmark.harness.campaign.discover import SolverInfo, declared_in
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.settings import by_name, with_settings
from shardmark.harness.sandbox.contract import Limits, Order
from shardmark.instances import InputError

SOLVERS = Path(__file__).with_name("campaign_solvers.py")
PLAIN = SolverInfo("s", "pipeline", "solver", "s.py", "0", params={"a": 1, "b": 2.0, "c": True, "d": "x", "e": None})


@pytest.fixture(scope="module")
def cuts():
    """A solver whose parameter decides its report."""
    return next(info for info in declared_in(SOLVERS) if info.name == "cuts")


@pytest.mark.parametrize(
    ("given", "name", "changed"),
    [
        ({"a": "3"}, "s[a=3]", {"a": 3}),
        ({"b": "30"}, "s[b=30]", {"b": 30.0}),
        ({"b": "0.25", "a": "-1"}, "s[a=-1,b=0.25]", {"a": -1, "b": 0.25}),
        ({"c": "false", "d": "y"}, "s[c=false,d=y]", {"c": False, "d": "y"}),
    ],
)
def test_values_other_than_declared_make_a_variant(given, name, changed):
    info = with_settings(PLAIN, given)
    assert (info.name, info.declared, info.settings) == (name, "s", changed)
    assert info.params == {**PLAIN.params, **changed}


def test_declared_values_change_nothing():
    assert with_settings(PLAIN, {"a": "1", "b": "2"}) is PLAIN
    assert with_settings(PLAIN, {"a": "3", "b": "2"}) == with_settings(PLAIN, {"a": "3"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"slice": "3"}, "'slice': expected a parameter of s: a, b, c, d, e"),
        ({"A": "3"}, r"did you mean 'a'\?"),
        ({"a": "0.5"}, r"'a': expected a whole number for s, found '0.5'"),
        ({"a": "1_0"}, r"'a': expected a whole number for s, found '1_0'"),
        ({"a": "٣"}, r"'a': expected a whole number for s, found '٣'"),
        ({"b": "1_0.5"}, r"'b': expected a number for s, found '1_0.5'"),
        ({"b": "soon"}, r"'b': expected a number for s, found 'soon'"),
        ({"b": "inf"}, r"'b': expected a number for s, found 'inf'"),
        ({"c": "1"}, r"'c': expected true or false for s, found '1'"),
        ({"d": "\n"}, r"'d': expected a text for s, found"),
        ({"e": "1"}, r"'e': expected a parameter of s that is a number or a text"),
    ],
)
def test_a_wrong_setting_is_one_sentence(given, sentence):
    with pytest.raises(InputError, match=sentence):
        with_settings(PLAIN, given)


def test_solvers_without_parameters_and_programs_take_none():
    with pytest.raises(InputError, match="'a': expected none for t"):
        with_settings(SolverInfo("t", "pipeline", "solver", "t.py", "0"), {"a": "1"})
    with pytest.raises(InputError, match="expected a solver in Python, found the program t"):
        with_settings(SolverInfo("t", "pipeline", "solver", "t", "0", params={"a": 1}, command=("t",)), {"a": "1"})
    with pytest.raises(InputError, match="'a': expected one value for each parameter"):
        by_name([("a", "1"), ("b", "2"), ("a", "1")])


def test_a_text_can_be_read_from_a_file(tmp_path):
    info = SolverInfo("t", "pipeline", "solver", "t.py", "0", params={"split": "", "count": 1})
    file = tmp_path / "split.json"
    file.write_text(f"[{', '.join(['0'] * 9)},\n 1]\n")
    short = with_settings(info, {"split": f"@{file}"})
    assert short.name == "t[split=[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]"
    assert short.params["split"] == file.read_text().replace("\n", "")
    file.write_text(f"[{', '.join(['0'] * 90)}]")
    texts = (f"@{file}", file.read_text(), "[" + "1," * 90 + "1]")
    names = {with_settings(info, {"split": text}).name for text in texts}
    assert len(names) == 2
    assert max(map(len, names)) < 30
    file.write_text("0" * 1_500_001)
    for given, sentence in (
        ({"split": "@no.json"}, r"no\.json: expected a file, found nothing of that name"),
        ({"split": "@"}, "'split': expected the name of a file after @"),
        ({"split": f"@{file}"}, "expected at most 1,500,000 characters for a parameter, found 1,500,001"),
        ({"count": "@no.json"}, "'count': expected a whole number for t, found '@no.json'"),
    ):
        with pytest.raises(InputError, match=sentence):
            with_settings(info, given)


def test_long_settings_are_split_into_accepted_arguments():
    from shardmark.harness.sandbox.backends.benchexec_backend import worker_command

    settings = {"split": "[0, \u00e4]" * 40_000}
    order = Order("pipeline", "two.json", "", {}, "s", "s.py", 0, Limits(20.0, 256.0), (1,), settings=settings)
    command = worker_command(order, 1 / 3)
    assert max(map(len, command)) < 2**17
    channel, deadline, *pieces = command[command.index("run") + 1 :]
    assert (channel, float(deadline)) == ("0", 1 / 3)
    assert Order.from_json(json.loads("".join(pieces))) == order


@pytest.mark.gate
def test_a_run_gets_its_settings(supervisor, chain, cuts):
    variant = with_settings(cuts, {"at": "3"})
    plain, other = (Job(info, chain, 0, Limits(20.0, 256.0)) for info in (cuts, variant))
    assert plain.id != other.id
    rows = [perform(job, supervisor) for job in (plain, other)]
    assert [(row.solver, sum(row.solution), row.status) for row in rows] == [
        ("cuts", chain.instance.nodes - 1, "ok"),
        ("cuts[at=3]", chain.instance.nodes - 3, "ok"),
    ]


@pytest.mark.gate
def test_a_campaign_stores_both_the_variant_and_the_solver(chain, tmp_path, posix_for_auto):
    command = ["run", "--instance", str(chain.path), "--solver-path", str(SOLVERS), "--solver", "cuts", "--quiet"]
    for setting in ([], ["--set", "at=3"], ["--set", "at=1"]):
        assert main([*command, *setting, "--results", str(tmp_path)]) == 0
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as database:
        assert database.execute("SELECT solver FROM runs ORDER BY 1").fetchall() == [("cuts",), ("cuts[at=3]",)]
        params = dict(database.execute("SELECT name, params FROM solvers").fetchall())
    assert {name: json.loads(text) for name, text in params.items()} == {"cuts": {"at": 1}, "cuts[at=3]": {"at": 3}}
