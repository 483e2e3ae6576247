"""Answers go to files, standard output and error; errors are JSON for machines; no arguments show help."""

from __future__ import annotations

import json

import polars as pl
import pytest
from referee import answer, shardmark

from shardmark.cli.values import STDOUT
from shardmark.instances.files.jsonfile import read_json, sha256


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of two methods on two instances of two tracks."""
    folder = tmp_path_factory.mktemp("campaign") / "results"
    methods = ["-s", "random-1", "-s", "lagrange", "-s", "simple"]
    done = shardmark("run", "-i", "chain", "-i", "diamond", *methods, "-r", folder, "-q", "--limits", "posix")
    assert done.returncode == 0, done.stderr
    return folder


def test_a_dash_is_the_standard_output_and_the_answer_goes_to_standard_error(chain):
    solved = shardmark("solve", chain.path, "-s", "random-1", "-o", STDOUT)
    assert json.loads(solved.stdout) == [0, 0, 1, 1]
    assert "cost         6" in solved.stderr
    bounded = shardmark("bound", chain.path, "-m", "simple", "-o", STDOUT, "--json")
    assert json.loads(bounded.stdout)["lower_bound"] == json.loads(bounded.stderr)["lower_bound"]
    made = shardmark("generate", "erdos-renyi", "--nodes", 4, "-o", STDOUT)
    assert json.loads(made.stdout)["format"] == "shardmark/pipeline/1"


def test_a_bound_is_written_with_what_repeats_it(chain, tmp_path):
    shown = answer("bound", chain.path, "-m", "simple", "-o", tmp_path / "bound.json", "-t", 20)
    written = read_json(tmp_path / "bound.json")
    assert {key: written[key] for key in shown} == shown
    assert written["instance_sha256"] == sha256(chain.path.read_bytes())
    assert (written["seed"], written["timeout_s"], written["cores"]) == (0, 20, 1)
    assert [bound["value"] for bound in written["bounds"]] == [shown["lower_bound"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "nowhere"], "nowhere: expected a file or an id of the catalog"),
        (["list"], "the following arguments are required: what"),
        (["list", "everything"], "argument what: invalid choice: 'everything'"),
        (["info", "chain", "--stages", "x"], "argument --stages: expected a whole number"),
        (["leaderboard", "-o", "-"], "argument -o/--output: expected a folder, found '-'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_an_object_for_machines(words, message):
    told = shardmark(*words, "--json")
    error = json.loads(told.stdout)["error"]
    assert (told.returncode, error["status"]) == (2, 2)
    assert error["message"].startswith(message)
    assert error["message"] in told.stderr


@pytest.mark.parametrize("words", [[], ["solve"], ["list"], ["generate"], ["reproduce"]], ids=" ".join)
def test_without_arguments_a_command_shows_its_help(words):
    told = shardmark(*words)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == shardmark(*words, "--help").stdout


def test_results_are_chosen_by_names(results):
    rows = answer("results", "-r", results, "-i", "diamond")
    assert {(row["track"], row["instance"]) for row in rows} == {("intraop", "diamond")}
    rows = answer("results", "-r", results, "--track", "pipeline", "-s", "random-1", "-s", "simple")
    assert sorted(row["solver"] for row in rows) == ["random-1", "simple"]
    bounds = shardmark("results", "-r", results, "--table", "bounds", "-s", "lagrange").stdout.splitlines()[:2]
    assert [line.split()[:3] for line in bounds] == [
        ["track", "instance", "solver"],
        ["intraop", "diamond", "lagrange"],
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-s", "simpel"], "--solver 'simpel': expected the name of a run's solver, did you mean 'simple'?"),
        (["-i", "x"], "--instance 'x': expected the name of a run's instance"),
        (["-s", "simple", "--table", "hosts"], "--solver: expected no filter, as the table hosts has no such column"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_results_do_not_have_every_name(words, sentence, results):
    told = shardmark("results", "-r", results, *words)
    assert (told.returncode, told.stderr) == (2, f"shardmark: results: {sentence}\n")


def test_numbers_are_numbers_for_machines(results):
    (row,) = answer("results", "-r", results, "-i", "diamond", "-s", "lagrange")
    assert type(row["lower_bound"]) is int
    assert row["claimed"]["lower_bound"] == row["lower_bound"]
    (campaign,) = answer("results", "-r", results, "--table", "campaigns")
    assert isinstance(campaign["command"], list)


def test_a_table_that_is_written_is_not_shown(results, tmp_path):
    path = tmp_path / "runs.csv"
    told = shardmark("results", "-r", results, "--csv", path, "-s", "lagrange")
    assert (told.stdout, told.stderr) == ("", f"wrote 1 row to {path}\n")
    assert pl.read_csv(path)["solver"].to_list() == ["lagrange"]
    assert shardmark("results", "-r", results, "--csv", STDOUT, "-s", "lagrange", "--json").stdout == path.read_text()
