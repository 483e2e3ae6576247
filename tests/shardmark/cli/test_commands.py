"""The command line as a user meets it: exit status, JSON on stdout, one sentence for every mistake."""

from __future__ import annotations

import argparse
import errno
import gzip
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from patience import given_time
from referee import ZOO, Result, answer, needs_isolation, shardmark

from shardmark import api, runs
from shardmark.cli.arguments import main, parser
from shardmark.cli.commands import files
from shardmark.harness.campaign.discover import discover
from shardmark.harness.campaign.local_executor import LocalExecutor
from shardmark.harness.results.claims import PROVEN, gap
from shardmark.harness.results.database import Store
from shardmark.instances import catalog
from shardmark.instances.files.jsonfile import read_json, write_json
from shardmark.solvers import registry

pytestmark = pytest.mark.gate(cases=2)

CONTEST_EXAMPLE = {
    "problem": {
        "name": "example",
        "nodes": {
            "intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
            "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
            "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]],
        },
        "edges": {
            "nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
            "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]],
        },
        "usage_limit": 50,
    }
}


LONG = "a" * 9000
ATTACK = Path(__file__).parents[2] / "data" / "attack"


@pytest.fixture
def example(tmp_path) -> Path:
    path = tmp_path / "example.json"
    write_json(path, CONTEST_EXAMPLE)
    return path


@pytest.fixture
def graph(chain) -> Path:
    return chain.path


def solution_file(tmp_path, solution) -> Path:
    path = tmp_path / "solution.json"
    write_json(path, solution)
    return path


def test_check_tells_the_exact_cost(example, tmp_path):
    found = answer("check", example, solution_file(tmp_path, [0, 0, 2, 1, 0]))
    assert found == {
        "instance": "example.json",
        "feasible": True,
        "cost": 445,
        "lower_bound": 395,
        "bound_from": "instance",
        "grade": "claimed",
        "gap": 445 / 395 - 1,
        "optimal": False,
        "violations": [],
    }


@pytest.mark.parametrize(
    ("solution", "sentence"),
    [
        ([0, 0, 2, 1], "5"),
        ([0, 0, 3, 1, 0], "solution[2]"),
        ([0, -1, 2, 1, 0], "solution[1]"),
        ([0, 0, 1, 1, 0], "time step 50"),
        ([0, 0, True, 1, 0], "solution[2]"),
        ([0, 0, 1.0, 1, 0], "solution[2]"),
        ({"a": 1}, "list"),
    ],
)
def test_check_says_in_a_sentence_why_a_solution_is_infeasible(example, tmp_path, solution, sentence):
    found = answer("check", example, solution_file(tmp_path, solution), status=1)
    assert not found["feasible"]
    assert sentence in found["violations"][0]


def test_check_names_amount_and_time_of_a_memory_violation(example, tmp_path):
    found = answer("check", example, solution_file(tmp_path, [0, 0, 1, 1, 0]), status=1)
    assert found["cost"] == 15 + 55 + 45 + 75 + 95 + 30 + 10 + 10 + 20 + 60
    (sentence,) = found["violations"]
    assert "time step 50" in sentence
    assert "55" in sentence
    assert "50" in sentence


def test_check_adds_beyond_64_bits(tmp_path):
    document = json.loads(json.dumps(CONTEST_EXAMPLE))
    document["problem"]["nodes"]["costs"] = [[2**63 - 1] * len(c) for c in CONTEST_EXAMPLE["problem"]["nodes"]["costs"]]
    path = tmp_path / "huge.json"
    write_json(path, document)
    found = answer("check", path, solution_file(tmp_path, [0, 0, 2, 1, 0]))
    assert found["cost"] == 5 * (2**63 - 1) + 30 + 40 + 10 + 30 + 60


@pytest.mark.parametrize(("cost", "told"), [(10**18, True), (10**17, False)])
def test_check_tells_of_an_infinite_cost(tmp_path, capsys, cost, told):
    path = tmp_path / "one.json"
    nodes = {"intervals": [[0, 1]], "costs": [[cost]], "usages": [[1]]}
    problem = {"name": "one", "nodes": nodes, "edges": {"nodes": [], "costs": []}, "usage_limit": 1}
    write_json(path, {"problem": problem})
    assert main(["check", str(path), str(solution_file(tmp_path, [0]))]) == 0
    assert ("the cost is infinite" in capsys.readouterr().err) == told


LIAR = """
from shardmark.solvers.registry import bound

@bound("intraop", source="a test")
def liar(instance, run):
    \"\"\"Bounds everything by far too much.\"\"\"
    run.bound(10**6)

@bound("intraop", source="a test")
def quiet(instance, run):
    \"\"\"Bounds nothing.\"\"\"
"""


def test_check_holds_a_solution_against_the_bound_of_a_method(example, tmp_path):
    solution = solution_file(tmp_path, [0, 0, 2, 1, 0])
    of_bound = answer("check", example, solution, "--method", "lagrange", "--timeout", 60)
    of_solver = answer("check", example, solution, "--method", "cfn-native", "--timeout", 60)
    for found, method in ((of_bound, "lagrange"), (of_solver, "cfn-native")):
        assert (found["method"], found["bound_from"], found["status"]) == (method, method, "ok")
        assert 395 < found["lower_bound"] <= 445
        assert found["gap"] == 445 / found["lower_bound"] - 1
        assert found["limits"]
    assert (of_bound["method_cost"], of_solver["method_cost"]) == (None, 445)
    assert (of_solver["gap"], of_solver["optimal"]) == (0, True)


def test_check_says_that_a_method_proves_nothing_or_something_wrong(example, tmp_path):
    solution = solution_file(tmp_path, [0, 0, 2, 1, 0])
    liar = tmp_path / "liar.py"
    liar.write_text(LIAR)
    found = answer("check", example, solution, "--method", "liar", "--solver-path", liar)
    assert (found["status"], found["lower_bound"], found["bound_from"]) == ("contradiction", 395, "instance")
    assert found["reason"] == "claims the lower bound 1000000, but the solution has the cost 445"
    found = answer("check", example, solution, "--method", "quiet", "--solver-path", liar)
    assert (found["reason"], found["lower_bound"], found["bound_from"]) == ("reported no lower bound", 395, "instance")


def test_check_names_methods_if_its_bound_is_weak(graph, tmp_path):
    solution = solution_file(tmp_path, [0, 0, 1, 1])
    result = shardmark("check", graph, solution)
    assert "--method NAME may prove a greater lower bound: anchored, borders, bottleneck, " in result.stderr
    assert "stages       2" in result.stdout
    assert shardmark("check", graph, solution, "--quiet").stderr == ""
    assert "may prove" not in shardmark("check", graph, solution, "--method", "exact", "--limits", "posix").stderr
    assert "may prove" not in shardmark("check", "chain", solution_file(tmp_path, [0, 0, 0, 1, 1])).stderr  # optimal


def test_check_runs_no_method_for_what_is_infeasible(example, tmp_path):
    found = answer("check", example, solution_file(tmp_path, [0, 0, 1, 1, 0]), "--method", "lagrange", status=1)
    assert (found["gap"], found["optimal"], "method" in found) == (None, None, False)


def test_solve_reports_and_writes_the_solution(graph, tmp_path):
    output = tmp_path / "out.json"
    found = answer("solve", graph, "--solver", "random-100", "--timeout", 60, "--output", output)
    assert found["status"] == "ok"
    assert found["cost"] == 6.0
    assert found["lower_bound"] == pytest.approx(5.0)
    assert found["gap"] == pytest.approx(0.2)
    assert not found["optimal"]
    assert set(found) >= {"feasible", "wall_s", "cpu_s", "peak_mib"}
    assert answer("check", graph, output)["cost"] == 6.0
    message = shardmark("solve", graph, "--solver", "random-1", "--output", output).stderr
    assert message == f"wrote the solution to {output}\n"
    silent = ["--solver", "silent", "--solver-path", ZOO / "zoo.py"]
    assert shardmark("solve", graph, *silent, "--output", output).stderr == ""


def test_stages_override_the_file(graph):
    assert answer("info", graph)["stages"] == 2
    assert answer("info", graph, "--stages", 3)["stages"] == 3
    found = answer("solve", graph, "--stages", 1, "--solver", "random-1")
    assert (found["cost"], found["stages"]) == (10.0, 1)


def test_what_is_proven_optimal_has_no_gap():
    assert gap(10.0, 10.0 * (1 - 1e-12)) == 0
    assert gap(10, 9.5) == 0
    assert gap(10.0, 10.0 * (1 - 2e-5)) == pytest.approx(2e-5, rel=1e-3)
    assert gap(10, 8) == 0.25
    for command in ("solve", "check", "bound"):
        assert "`gap` is cost / bound - 1" in " ".join(shardmark(command, "--help").stdout.split())


def test_a_bound_is_no_solver_and_solvers_are_of_a_track(graph):
    result = shardmark("solve", graph, "--solver", "simple")
    expected = "expected a solver, found a bound method: run it with `bound`"
    assert (result.returncode, result.stderr) == (2, f"shardmark: solver: 'simple': {expected}\n")
    result = shardmark("solve", graph, "--solver", "cp-sat")
    assert result.stderr.endswith("; this instance is of pipeline, cp-sat is for scheduling\n")


@pytest.mark.gate
def test_solve_exits_with_1_when_nothing_is_found(graph):
    zoo = ZOO / "zoo.py"
    found = answer("solve", graph, "--solver", "silent", "--solver-path", zoo, status=1)
    assert (found["status"], found["cost"], found["reason"]) == ("none", None, "reported no solution")
    assert found["feasible"] is None
    assert ("feasible", "-") in [
        tuple(line.split())
        for line in shardmark("solve", graph, "--solver", "silent", "--solver-path", zoo).stdout.splitlines()
    ]


def test_bound_proves_the_optimum(graph):
    found = answer("bound", graph, "--method", "exact", "--timeout", 120)
    assert found["lower_bound"] == pytest.approx(6.0, rel=1e-5)
    assert found["lower_bound"] <= 6.0
    assert found["optimal"]
    weaker = answer("bound", graph, "--method", "simple")
    assert weaker["lower_bound"] == pytest.approx(5.0)
    assert (weaker["optimal"], weaker["cost"]) == (None, None)
    none = answer("bound", graph, "--method", "returns-it", "--solver-path", ZOO / "zoo.py", status=1)
    assert (none["lower_bound"], none["reason"]) == (None, "reported no lower bound")


def test_a_certificate_is_written_and_checked(tmp_path, graph):
    path = tmp_path / "diamond.cert.json.gz"
    found = answer("bound", "diamond", "--method", "lagrange", "--certificate", path)
    assert (found["lower_bound"], found["checked_bound"], found["grade"]) == (137, 137, "checked")
    checked = {"lower_bound": 137, "proven": True, "checked_bound": 137, "grade": "checked"}
    assert answer("check", "diamond", path) == checked
    document = json.loads(gzip.decompress(path.read_bytes()))
    assert document["format"] == "shardmark/certificate/1"
    path.write_text(json.dumps({**document, "bound": 138}))
    claimed = answer("check", "diamond", path, status=1)
    assert (claimed["checked_bound"], claimed["grade"]) == (137, "claimed")
    assert "claims 138, but proves only 137" in shardmark("check", "diamond", path).stderr
    told = shardmark("check", "triangle", path)
    assert (told.returncode, "expected a certificate for this instance" in told.stderr) == (1, True)
    path.write_text(json.dumps({**document, "bound": "138"}))
    told = shardmark("check", "diamond", path)
    assert (told.returncode, told.stderr) == (2, f"shardmark: {path}: bound: expected a number, found '138'\n")
    none = shardmark("bound", graph, "--method", "borders", "--certificate", tmp_path / "none.cert.json")
    assert none.returncode == 0
    assert none.stderr == "shardmark: borders wrote no certificate of a lower bound\n"
    assert not (tmp_path / "none.cert.json").exists()


def test_a_certificate_is_written_although_a_bound_proves_the_cost_optimal(tmp_path):
    path = tmp_path / "chain.cert.json.gz"
    found = answer("bound", "chain", "--method", "reweighted", "--certificate", path, "--timeout", "20")
    assert (found["optimal"], found["checked_bound"]) == (True, pytest.approx(11))
    assert answer("check", "chain", path)["proven"]


def test_a_formula_that_proves_less_than_the_method_claims_less(tmp_path):
    path, instance = tmp_path / "flow.cert.json.gz", tmp_path / "flow.json"
    answer("generate", "random-dataflow", "--nodes", 20, "--devices", 2, "--output", instance)
    found = answer("bound", instance, "--method", "critical-path", "--certificate", path, "--timeout", "20")
    assert 14 < found["checked_bound"] < found["lower_bound"]
    checked = answer("check", instance, path)
    assert (checked["lower_bound"], checked["proven"]) == (found["checked_bound"], True)


def test_info_warns_of_a_graph_without_nodes(tmp_path):
    document = {"format": "shardmark/pipeline/1", "stages": 2, "nodes": {"work": [], "output_size": []}, "edges": []}
    (tmp_path / "empty.json").write_text(json.dumps(document))
    result = shardmark("info", tmp_path / "empty.json")
    assert (result.returncode, "nodes              0" in result.stdout) == (0, True)
    assert result.stderr == f"shardmark: {tmp_path}/empty.json has no nodes: there is nothing to split\n"


def test_people_get_columns(graph, example):
    result = shardmark("info", graph)
    assert result.returncode == 0
    assert "stages         2" in result.stdout or "stages" in result.stdout.split()
    assert "{" not in result.stdout
    assert shardmark("info", example).stdout.startswith("track")


def test_lists(tmp_path):
    instances = answer("list", "instances")
    assert {row["track"] for row in instances} >= {"intraop", "pipeline"}
    solvers = answer("list", "solvers")
    assert {row["name"] for row in solvers} >= {"random", "greedy", "cfn-penalty", "random-10000", "brkga-100"}
    assert {row["name"] for row in answer("list", "bounds")} >= {"simple", "bottleneck", "exact"}
    assert {row["suite"] for row in answer("list", "suites")} >= {"quick", "contest"}
    for what in ("instances", "solvers", "bounds"):
        assert {row["track"] for row in answer("list", what, "--track", "placement")} == {"placement"}
    suites = answer("list", "suites", "--track", "placement")
    assert all(row["tracks"] == ["placement"] for row in suites)
    (quick,) = (row for row in suites if row["suite"] == "quick")
    assert 0 < quick["instances"] < next(r["instances"] for r in answer("list", "suites") if r["suite"] == "quick")


def test_list_of_devices():
    h100, *others = answer("list", "devices")
    assert len(others) >= 11
    assert h100["source"].startswith("NVIDIA H100")
    figures = {key: value for key, value in h100.items() if key not in ("name", "source")}
    rates = {"float16_tflop_s": 989.4, "float32_tflop_s": 494.7}
    links = {"launch_us": 5.0, "link_gb_s": 450.0, "link_latency_us": 7.2}
    assert figures == pytest.approx({"memory_gb": 80.0, "bandwidth_gb_s": 3350.0, **rates, **links})
    refused = shardmark("list", "devices", "--track", "pipeline")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_nothing_on_a_terminal_has_the_double_backticks_of_docstrings():
    listed = shardmark("list", "solvers").stdout + shardmark("list", "bounds").stdout
    helped = [shardmark(*words, "--help").stdout for words in (["solve"], ["check"], ["import", "graph-def"])]
    assert "``" not in "".join([listed, *helped])
    assert "`bound_from` names its source" in " ".join(helped[0].split())
    assert "\nnode            node i of the file" in helped[2]  # in its column
    assert "default: 4096" in " ".join(helped[0].split())


@pytest.mark.gate
def test_generate_is_repeatable(tmp_path):
    for family in ("menus", "watts-strogatz", "inception", "random-dataflow"):
        first, again = tmp_path / f"{family}.json", tmp_path / f"{family}-again.json"
        facts = answer("generate", family, "--seed", 3, "--output", first)
        answer("generate", family, "--seed", 3, "--output", again)
        assert first.read_bytes() == again.read_bytes()
        assert answer("info", first)["nodes"] == facts["nodes"]


@pytest.mark.gate
@pytest.mark.parametrize("track", ["intraop", "pipeline"])
def test_a_new_solver_works_as_it_is(track, tmp_path, graph, example):
    made = answer("new-solver", "my-idea", "--track", track, cwd=tmp_path)
    path = tmp_path / "my_idea.py"
    assert made["file"] == "my_idea.py"
    instance = example if track == "intraop" else graph
    found = answer("solve", instance, "--solver", "my-idea", "--solver-path", path)
    assert found["status"] == "ok"
    again = shardmark("new-solver", "my-idea", "--track", track, cwd=tmp_path)
    assert again.returncode == 2
    assert "expected a new file, this one exists: choose another name or delete it" in again.stderr


def test_a_misspelt_option_is_named_rather_than_the_one_that_is_missing(graph):
    result = shardmark("solve", graph, "--solvr", "random")
    told = "shardmark solve: unrecognized arguments: --solvr, did you mean '--solver'?\n"
    assert (result.returncode, result.stderr) == (2, told)


@pytest.mark.parametrize(
    ("command", "given", "meant"),
    [("bound", "--solver", "--method"), ("solve", "--method", "--solver"), ("run", "--method=exact", "--solver")],
)
def test_the_option_of_another_command_that_names_a_method_leads_to_the_right_one(command, given, meant):
    result = shardmark(command, *(["chain"] if command != "run" else []), *(given.split("=")))
    assert (result.returncode, f"did you mean {meant!r}?" in result.stderr) == (2, True)


def test_a_new_solver_in_a_folder_that_is_searched_needs_no_path(tmp_path, monkeypatch):
    def tried(folder: str) -> str:
        words = ["new-solver", "mine", "--track", "pipeline", "--directory", folder]
        return files.run_new_solver(parser().parse_args(words))[1]["try"]

    monkeypatch.setattr(registry, "FOLDER", tmp_path / "solvers")
    monkeypatch.chdir(tmp_path)
    assert tried(f"{tmp_path}/solvers/pipeline") == "shardmark solve INSTANCE --solver mine"
    assert tried("a b") == "shardmark solve INSTANCE --solver mine --solver-path 'a b/mine.py'"


@pytest.mark.parametrize("name", ["greedy", "lagrange"])
def test_a_new_solver_takes_no_name_of_another(name, tmp_path):
    refused = shardmark("new-solver", name, "--track", "intraop", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"shardmark: {name}.py: expected an unused name, found {name} in ")
    assert line.endswith(f"{name}.py")
    assert not list(tmp_path.iterdir())


def test_run_results_leaderboard(graph, tmp_path):
    results, site = tmp_path / "results", tmp_path / "site"
    done = answer("run", "--instance", graph, "--solver", "random-1", "--solver", "simple", "--results", results)
    assert (done["runs"], done["ok"], done["declined"], done["failed"]) == (2, 2, 0, 0)
    rows = answer("results", "--results", results, "--csv", tmp_path / "r.csv", "--parquet", tmp_path / "r.parquet")
    assert {row["solver"] for row in rows} == {"random-1", "simple"}
    assert (tmp_path / "r.csv").read_text().count("\n") == 3
    index = answer("leaderboard", "--results", results, "--output", site)["index"]
    assert Path(index) == site / "index.html"
    assert "random-1" in (site / "index.html").read_text()


def test_a_campaign_checks_certificates_if_it_is_asked_for_them(tmp_path):
    asked = ("run", "--instance", "crossing", "--solver", "load", "--results", tmp_path / "results")
    answer(*asked)
    assert answer(*asked, "--certificates")["started"] == 1
    with closing(Store.open(tmp_path / "results")) as store:
        ((run, claimed, proven, _, _, reason),) = store.rows("certificates")[1]
        assert (float(claimed), float(proven), reason) == (pytest.approx(6), 6, "")
        assert store.certificate(run)["bound"] == float(claimed)
        assert len(store.finished()) == 2


def test_a_dry_run_says_how_much_is_left_and_runs_nothing(graph, tmp_path):
    what = "--instance", graph, "--instance", "diamond", "--solver", "random-1", "--solver", "greedy", "--seeds", "2"
    asked = ("run", *what, "--timeout", "90", "--results", tmp_path / "results")
    counted = ("track", "instances", "methods", "runs", "left", "hours")
    pipeline, intraop = ("pipeline", 1, 1, 2, 2, 0.05), ("intraop", 1, 1, 2, 2, 0.05)
    rows = answer(*asked, "--dry-run", "--jobs", "1")
    assert [tuple(row[name] for name in counted) for row in rows] == [pipeline, intraop, ("all", 2, 2, 4, 4, 0.1)]
    assert not (tmp_path / "results").exists()
    answer(*asked)
    rows = answer(*asked, "--dry-run", "--retry-failed")
    assert [(row["runs"], row["left"], row["hours"]) for row in rows] == [(2, 0, 0), (2, 0, 0), (4, 0, 0)]


def test_declines_are_counted_apart_from_failures(tmp_path):
    methods = ("--solver", "latency-dp", "--solver", "one-accelerator", "--timeout", "60")
    done = answer("run", "--instance", "crossing", *methods, "--results", tmp_path / "results")
    assert (done["runs"], done["ok"], done["declined"], done["failed"]) == (2, 1, 1, 0)


def test_every_table_of_a_campaign_can_be_had(graph, tmp_path, monkeypatch):
    monkeypatch.setattr("shardmark.harness.campaign.host.Disturbances.found", lambda *_: ["It was hot."])
    results = tmp_path / "results"
    done = shardmark("run", "--instance", graph, "--solver", "random-1", "--results", results, "--quiet")
    assert done.stderr.endswith("warning: this machine: It was hot.\n")
    [run] = answer("results", "--results", results)
    assert (run["verified"], run["stop"], run["co_runners"], run["host"]) == ("feasible", "exit", 0, "")
    assert run["claimed"]["end"] == "done"
    assert run["enforced"]["wall"] == "hard"
    [incumbent] = answer("results", "--results", results, "--table", "incumbents")
    assert (incumbent["run"], incumbent["cost"]) == (run["id"], run["cost"])
    assert answer("results", "--results", results, "--table", "bounds") == []
    assert [row["rank"] for row in answer("results", "--results", results, "--table", "solvers")] == [1]
    [campaign] = answer("results", "--results", results, "--table", "campaigns")
    assert (campaign["executor"], campaign["jobs"], campaign["runs"]) == ("local", 1, 1)
    assert campaign["ended"] >= campaign["started"]
    [host] = answer("results", "--results", results, "--table", "hosts", "--csv", tmp_path / "hosts.csv")
    assert host["disturbances"] == ["It was hot."]
    assert "It was hot." in (tmp_path / "hosts.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["solve", "GRAPH", "--solver", "brkga-10"], "did you mean 'brkga-100'?"),
        (["solve", "nowhere.json", "--solver", "random-1"], "nowhere.json"),
        (
            ["solve", "GRAPH", "--solver", "random-1", "--timeout", "-1"],
            "expected a positive number below 1e9, found '-1'",
        ),
        (["solve", "GRAPH", "--solver", "random-1", "--cores", "two"], "expected a whole number"),
        (["solve", "EXAMPLE", "--solver", "cfn-penalty", "--set", "slices=3"], "did you mean 'slice_s'?"),
        (["solve", "EXAMPLE", "--solver", "cfn-penalty", "--set", "slice_s"], "expected NAME=VALUE, found 'slice_s'"),
        (["run", "--set", "slice_s=3"], "expected only with --solver"),
        (["solve", "GRAPH", "--command", "true", "--set", "a=3"], "expected only with --solver"),
        (
            ["solve", "EXAMPLE", "--solver", "random", "--stages", "2"],
            "option stages: expected no option: intraop has none",
        ),
        (["info", "chain", "--contiguity", "free"], "chain: option contiguity: expected an option of pipeline: stages"),
        (["solve", "EXAMPLE", "--solver", "brkga-100"], "expected one of"),
        (["solve", "GRAPH", "--solver", "x", "--solver-path", "nowhere"], "expected a solver file or a folder"),
        (["check", "GRAPH", "nowhere.json"], "expected a file"),
        (["check", "EXAMPLE", "nowhere.json", "--method", "lagrang"], "did you mean 'lagrange'?"),
        (["check", "EXAMPLE", "nowhere.json", "--timeout", "3"], "expected only with --method"),
        (["check", "GRAPH", "GRAPH.txt"], "GRAPH.txt"),
        (["check", "EXAMPLE", "EXAMPLE", "--track", "pipeline"], "expected"),
        (["bound", "GRAPH", "--method", "random-1000000"], "did you mean"),
        (["generate", "erdos-renyi", "--nodes", "9" * 11, "--output", "x"], "expected an integer from 1 to 20000"),
        (
            ["generate", "erdos-renyi", "--size-mean", "-3", "--output", "x"],
            "generate erdos-renyi: --size-mean: expected",
        ),
        (["generate", "random-dataflow", "--links", "x", "--output", "x"], "random-dataflow: --links: expected one of"),
        (["generate", "transformer", "--layers", "9" * 11, "--output", "x"], "expected an integer from 1 to 1000000"),
        (["solve", "chain", "--command", LONG], "expected a program that can be started"),
        (["solve", "chain", "--command", f"./{LONG}"], "expected a program that can be started"),
        (["run", "--instance", "chain", "--command", LONG], "expected a program that can be started"),
        (["submit", LONG], "File name too long"),
        (["list", "solvers", "--solver-path", LONG], "File name too long"),
        (["results", "--results", LONG], "File name too long"),
        (["new-solver", LONG, "--track", "pipeline"], "File name too long"),
        (["new-solver", "mine", "--track", "pipeline", "--directory", LONG], "File name too long"),
        (["solve", "GRAPH", "--solver", "random-1", "--output", ""], "argument -o/--output: expected a path, found ''"),
        (["check", "GRAPH", ""], "argument SOLUTION: expected a path, found ''"),
        (["results", "--csv", ""], "argument --csv: expected a path, found ''"),
        (["solve", "GRAPH", "--solver", "random-1", "--timeout", "1_0"], "expected a positive number below 1e9"),
        (["records", "--instance", ""], "instance: '': expected the id of an instance in the catalog"),
        (["fetch", "--mirror", ""], "argument --mirror: expected a text, found ''"),
        (["fetch", "--mirror", "nowhere"], "mirror: 'nowhere': expected a folder or an http(s) address"),
        (["worker", "--scheduler", "\udcff"], "expected an address like tcp://HOST:8786"),
        (["worker", "--scheduler", "tcp://h:1", "--name", ""], "argument --name: expected a text, found ''"),
        (["results", "--results", "\udcff"], "run `shardmark run` first"),
        (
            ["generate", "transformer", "--links", "queue", "--output", "x"],
            "generate transformer: unrecognized",
        ),
        (["generate", "sharded-experts", "--mesh", "9" * 5000, "--output", "x"], "expected axis sizes of at least 2"),
        (["info", "model.onnx"], "expected an instance, found a model"),
        (["run", "--suite", "quik"], "quick"),
        (["run", "--instance", "EXAMPLE", "--results", "."], "expected a folder without files that runs need"),
        (["run", "--solver", "brkga-10"], "brkga-100"),
        (["run", "--jobs", "0"], "expected a whole number from 1 to 2147483647, found '0'"),
        (["worker", "--scheduler", "x", "--cpus", "0-999999999"], "a whole number from 0 to 65536"),
        (["results", "--results", "nowhere"], "run `shardmark run` first"),
        (["leaderboard", "--results", "nowhere"], "run `shardmark run` first"),
        (["generate", "nothing", "--output", "x.json"], "invalid choice"),
        (["new-solver", "Bad Name", "--track", "pipeline"], "lower-case letters"),
        (["new-solver", "class", "--track", "pipeline"], "a Python function"),
        (["new-solver", "2opt", "--track", "pipeline"], "a Python function"),
        (["info", "chain", "--track", "intraop"], "expected pipeline, found intraop"),
        (["run", "--suite", "smoke", "--instance", "chain"], "not allowed with"),
        (["run", "--suite", "models", "--track", "nowhere"], "argument --track: invalid choice"),
        (
            ["run", "--suite", "scheduling", "--track", "intraop"],
            "expected a track of the suite scheduling, found intraop",
        ),
        (["run", "--instance", "chain", "--track", "intraop"], "chain: track: expected pipeline, found intraop"),
        (["run", "--suite", "smoke", "--cores", "4096"], "the usable cores, found 1 * 4096"),
        (
            ["solve", "chain", "--solver", "random-1", "--cores", "4096"],
            "the number of usable CPUs, found 4096",
        ),
        (["solve", "chain"], "--command is required; `shardmark solve --help` lists the options"),
        (["bound", "chain", "exact"], "required: -m/--method; `shardmark bound --help` lists the options"),
        (["list", "everything"], "invalid choice"),
        (["list", "solver"], "'devices'), did you mean 'solvers'?"),
        (["sovle", "chain"], "'completion'), did you mean 'solve'?"),
        ([], "COMMAND"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_sentence_and_exit_2(arguments, sentence, graph, example, tmp_path):
    (tmp_path / "GRAPH.txt").write_text("no json")
    (tmp_path / "model.onnx").write_bytes(b"\x08\xff")
    names = {"GRAPH": str(graph), "EXAMPLE": str(example)}
    result = shardmark(*[names.get(a, a) for a in arguments], cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert sentence in result.stderr
    if result.stderr.startswith("shardmark"):
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("value", [["--timeout", "-3"], ["--cores", "0"], ["--seed", "-1"], ["--memory", "many"]])
def test_a_value_that_is_wrong_is_told_without_usage(graph, value):
    result = shardmark("solve", graph, "--solver", "random-1", *value)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert re.match(rf"shardmark solve: argument (-\w/)?{value[0]}: expected ", result.stderr)
    assert result.stderr.endswith(f"found {value[1]!r}\n")


def test_a_command_that_is_missing_is_told_with_usage():
    assert shardmark().stderr.startswith("usage: ")


def test_an_unknown_bound_and_a_solver_that_proves_none_are_told_the_methods_that_prove_bounds(graph, example):
    bounds = sorted(info.name for info in discover() if (info.track, info.kind) == ("pipeline", "bound"))
    for name, words in (("nope", "one of "), ("annealing", "a method that proves bounds: ")):
        result = shardmark("bound", graph, "--method", name)
        told = f"shardmark: bound: {name!r}: expected {words}{', '.join(bounds)}\n"
        assert (result.returncode, result.stderr) == (2, told)
    told = shardmark("bound", example, "--method", "greedy").stderr
    assert ": cfn-native, cfn-relaxed, " in told
    assert "cfn-penalty" not in told
    assert "annealing" in shardmark("solve", graph, "--solver", "nope").stderr


def parsers_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of all its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for member in action.choices.values():
                yield from parsers_of(member)


def test_no_option_can_be_abbreviated():
    """At d88b055 ``check --output FILE`` set the limit on output."""
    parsers = list(parsers_of(parser()))
    assert len(parsers) > 40
    assert [one.prog for one in parsers if one.allow_abbrev] == []
    for command in (["check", "chain", "x.json"], ["run"]):
        result = shardmark(*command, "--output", "5")
        assert result.returncode == 2
        assert "unrecognized arguments: --output 5, did you mean '--output-limit'?" in result.stderr


def test_a_letter_means_the_same_in_every_command():
    names: dict[str, set[str]] = {}
    for action in (action for one in parsers_of(parser()) for action in one._actions if action.option_strings):
        *letters, name = action.option_strings
        for letter in letters:
            names.setdefault(letter, set()).add(name)
    assert len(names) >= 10
    assert {letter: found for letter, found in names.items() if len(found) > 1} == {}


WORDS = ["-", "--", "1-", "5,,", "0,1-", "@", "x", "1.5", "nan", "-inf", "1e400", "\u0661", "1_000", "+5", "0x10", "-1"]


@pytest.mark.parametrize("value", ["", " 5", "9" * 30, "9" * 5000, LONG, "\x1b[31m", "\udc80", *WORDS], ids=ascii)
def test_a_value_of_an_option_is_taken_or_refused_in_words_of_ours(value):
    for one in parsers_of(parser()):
        for read in filter(None, (action.type for action in one._actions)):
            try:
                number = read(value)
            except argparse.ArgumentTypeError as error:  # argparse has words of its own for any other
                number, message = 0, str(error)
                assert message.startswith("expected "), one.prog
            assert not isinstance(number, int) or -(2**63) < number < 2**63


TOO_LONG = [
    ["info", LONG],
    ["info", "chain", "--track", LONG],
    ["info", "chain", "--stages", "9" * 5000],
    ["info", "chain", f"--{LONG}"],
    ["list", LONG],
    ["bound", "chain", "--method", LONG],
    ["solve", "chain", "--solver", LONG],
    ["solve", "chain", "--solver", "random-1", "--set", f"{LONG}=1"],
    ["generate", LONG, "--output", "x"],
    ["generate", "erdos-renyi", "--nodes", LONG, "--output", "x"],
    ["run", "--suite", LONG],
    ["fetch", LONG],
]


@pytest.mark.parametrize("arguments", TOO_LONG, ids=lambda arguments: " ".join(arguments)[:40])
def test_a_sentence_shows_the_ends_of_long_words_only(arguments, tmp_path):
    result = shardmark(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert len(result.stderr) < 2500
    assert "..." in result.stderr


def test_a_link_that_leads_to_itself_is_no_path(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for command in (["list", "solvers", "--solver-path", "loop"], ["submit", "loop"], ["results", "--results", "loop"]):
        result = shardmark(*command, cwd=tmp_path)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert "expected a path (Too many levels of symbolic links), found 'loop'" in result.stderr


def test_a_file_in_a_folder_that_one_may_not_enter_is_a_sentence(tmp_path, monkeypatch):
    """Before, `results`, `submit` and `plan verify` ended with a traceback; root, who runs tests too, may enter all."""

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    result = shardmark("results", "--results", tmp_path)
    wanted = "expected a file or folder that you have permission to use (Permission denied)"
    expected = f"shardmark: {tmp_path}/results.sqlite: {wanted}\n"
    assert (result.returncode, result.stderr) == (2, expected)


def test_a_lack_of_memory_is_a_sentence_with_the_need(graph, monkeypatch):
    def allocate(*_, **__):
        raise MemoryError("Unable to allocate 256. TiB")

    monkeypatch.setattr(runs, "perform", allocate)
    result = shardmark("solve", graph, "--solver", "random-1")
    expected = "shardmark: expected enough memory (Unable to allocate 256. TiB"
    assert (result.returncode, result.stderr.startswith(expected)) == (2, True)


@pytest.mark.parametrize("place", ["no/such/file.json", "a-file/x.json", "loop", LONG])
def test_an_output_that_cannot_be_written_is_a_sentence_before_anything_is_run(place, graph, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "perform", None)
    (tmp_path / "a-file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    solve, generate = ["solve", graph, "--solver", "random-1"], ["generate", "transformer"]
    for command in (solve, generate, ["import", "placement", "nowhere.json"]):
        result = shardmark(*command, "--output", tmp_path / place)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert re.search(r"expected a path( that can be written)? \(", result.stderr)


def test_a_folder_is_no_output(graph, tmp_path):
    result = shardmark("solve", graph, "--solver", "random-1", "--output", tmp_path)
    assert (result.returncode, result.stderr) == (
        2,
        f"shardmark: {tmp_path}: expected a file to write, found a folder\n",
    )


@pytest.mark.parametrize("command", [("solve", "--solver", "random-1"), ("bound", "--method", "simple")])
def test_an_output_does_not_replace_the_instance(command, graph, tmp_path):
    before, link = graph.read_bytes(), tmp_path / "link.json"
    link.symlink_to(graph)
    for output in (graph, link):
        result = shardmark(command[0], graph, *command[1:], "--output", output)
        expected = f"shardmark: {output}: expected a file other than the input files\n"
        assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)
    assert graph.read_bytes() == before


def test_an_output_does_not_replace_the_solver(graph, tmp_path):
    program = tmp_path / "mine.py"
    program.write_text(CRASHES)
    for path in (program, tmp_path):
        result = shardmark("solve", graph, "--solver", "crashes", "--solver-path", path, "--output", program)
        expected = f"shardmark: {program}: expected a file other than the input files\n"
        assert (result.returncode, result.stderr, program.read_text()) == (2, expected, CRASHES)


def test_a_name_too_long_for_a_file_is_a_sentence_even_if_the_output_exists(graph):
    result = shardmark("solve", "a" * 256, "--solver", "random-1", "--output", graph)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)


CRASHES = """import os
from shardmark.solvers.registry import bound, solver

@solver(track="pipeline")
def crashes(instance, run, *, how: str = "exit", before: bool = True):
    if before:
        run.report([0, 0, 1, 1])
        run.bound(1.0)
    if how == "exit":
        os._exit(3)
    if how == "raise":
        raise RuntimeError("no idea")
    if how == "claim":
        run.bound(7.0)
    while how == "wait":
        pass
"""


@pytest.mark.parametrize(
    ("how", "before", "status", "exit_status", "message"),
    [
        ("exit", True, "crash", 3, "crashed: ended with exit status 3; its earlier reports count"),
        ("exit", False, "crash", 1, "crashed: ended with exit status 3"),
        (
            "raise",
            True,
            "error",
            3,
            "failed: RuntimeError: no idea (crashes.py:12); its earlier reports count",
        ),
        ("claim", True, "contradiction", 3, "claims the lower bound 7, but has a solution of cost 6"),
        ("end", True, "ok", 0, ""),
    ],
)
def test_a_solver_that_crashes_ends_with_3_if_it_found_something_before(
    how, before, status, exit_status, message, graph, tmp_path
):
    file, output = tmp_path / "crashes.py", tmp_path / "best.json"
    file.write_text(CRASHES)
    given = ["--set", f"how={how}", "--set", f"before={str(before).lower()}", "--solver-path", file, "--output", output]
    result = shardmark("solve", graph, "--solver", "crashes", *given, "--json")
    found = json.loads(result.stdout)
    assert (result.returncode, found["status"], found["cost"]) == (exit_status, status, 6.0 if before else None)
    assert output.exists() == before
    told = [line for line in result.stderr.splitlines() if line.startswith("shardmark: ") and "wrote" not in line]
    assert told == ([f"shardmark: {found['solver']} {message}"] if message else [])


@pytest.mark.gate
def test_a_solver_that_a_limit_ends_after_a_report_ends_with_0(graph, tmp_path):
    file = tmp_path / "crashes.py"
    file.write_text(CRASHES)

    def within(seconds: float) -> Result:
        given = ["--solver", "crashes", "--set", "how=wait", "--solver-path", file, "--timeout", seconds]
        return shardmark("solve", graph, *given, "--json")

    result = given_time(within, lambda result: json.loads(result.stdout)["cost"] is not None)
    assert (result.returncode, json.loads(result.stdout)["status"]) == (0, "timeout")


def test_a_bound_that_crashes_after_a_report_ends_with_3(graph, tmp_path):
    file = tmp_path / "crashes.py"
    file.write_text(CRASHES)
    result = shardmark("bound", graph, "--method", "crashes", "--solver-path", file, "--json")
    found = json.loads(result.stdout)
    assert (result.returncode, found["status"], found["lower_bound"]) == (3, "crash", 1.0)
    assert "shardmark: crashes crashed: ended with exit status 3" in result.stderr


def test_help_says_when_solve_exits_with_1_and_3():
    helped = " ".join(shardmark("solve", "--help").stdout.split())
    assert "1 if it found none; 3 if it found one but crashed, failed or made a claim that was refuted" in helped
    top = shardmark("--help").stdout
    assert "  3        an answer was found, but its run crashed, failed or made a claim that was refuted\n" in top


def test_a_new_solver_makes_its_folder(tmp_path):
    made = answer("new-solver", "my-idea", "--track", "pipeline", "--directory", "a/new/folder", cwd=tmp_path)
    assert made["file"] == "a/new/folder/my_idea.py"
    assert "def my_idea(" in (tmp_path / "a/new/folder/my_idea.py").read_text()
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/below"):
        refused = shardmark("new-solver", "other", "--track", "pipeline", "--directory", folder, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert f"shardmark: {folder}: --directory: expected a folder that can be written" in refused.stderr


def test_the_module_is_the_program():
    command = [sys.executable, "-m", "shardmark", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("shardmark ")


def test_a_pipe_that_closes_early_is_no_crash(graph):
    command = f"{sys.executable} -m shardmark list solvers | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in result.stderr
    assert result.stdout


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize("command", ["list suites", "list instances --json", "list --help"])
def test_an_output_that_takes_nothing_is_a_sentence(where, command):
    shell = ["bash", "-c", f"{sys.executable} -m shardmark {command} {where}"]
    result = subprocess.run(shell, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("shardmark: standard output: expected")
    assert result.stderr.count("\n") == 1


def test_errors_that_nobody_reads_do_not_go_to_the_output():
    shell = ["bash", "-c", f"{sys.executable} -m shardmark info nowhere 2>&-"]
    result = subprocess.run(shell, stdout=subprocess.PIPE)
    assert (result.returncode, result.stdout) == (2, b"")


@pytest.mark.parametrize(
    ("words", "key"), [(["solve", "-s", "random-1"], "cost"), (["bound", "-m", "simple"], "lower_bound")], ids=str
)
def test_an_answer_whose_file_cannot_be_written_is_shown(words, key, graph):
    command, *method = words
    words = [command, graph, *method, "--quiet", "-o"]
    told = shardmark(*words, "/dev/full")
    assert told.returncode == 2
    assert told.stderr == "shardmark: /dev/full: expected a path that can be written (No space left on device)\n"
    assert re.search(rf"^{key} +\d", told.stdout, re.MULTILINE)
    found = json.loads(shardmark(*words, "/dev/full", "--json").stdout)
    assert found["error"] == {"status": 2, "message": told.stderr.removeprefix("shardmark: ").strip()}
    assert found[key] > 0


def test_a_terminal_that_cannot_show_a_name_gets_it_escaped(graph, tmp_path):
    path = tmp_path / "gr\u00fc\x1b[31m.json"
    path.write_bytes(graph.read_bytes())
    solution = solution_file(tmp_path, [0, 0, 1, 1])
    command = [sys.executable, "-m", "shardmark", "check", path, solution, "--quiet"]
    for encoding, name in (("ascii", r"gr\xfc\x1b[31m.json"), ("utf-8", "gr\u00fc\\x1b[31m.json")):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        result = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.splitlines()[0].split() == ["instance", name]


def test_control_characters_of_a_log_are_escaped(graph):
    program = shlex.quote(r"printf 'a\tb\033[2J\n' >&2; echo '[0,0,1,1]'")
    result = shardmark("solve", graph, "--command", f"sh -c {program}")
    assert result.returncode == 0, result.stderr
    assert result.stderr == "a\tb\\x1b[2J\n"


def test_help_says_what_counts_as_proven():
    assert Fraction("1e-5") == PROVEN
    assert "a relative 1e-5 (float costs)" in " ".join(shardmark("bound", "--help").stdout.split())
    practitioner = shardmark("reproduce", "practitioner", "--help").stdout
    assert "four" not in practitioner


def test_every_command_has_help_with_an_example():
    top = shardmark("--help").stdout
    commands = ["list", "solve", "check", "bound", "info", "run", "results", "leaderboard", "fetch", "generate"]
    for name in [*commands, "new-solver"]:
        assert name in top
        helped = shardmark(name, "--help")
        assert helped.returncode == 0
        assert "example: shardmark" in helped.stdout or name == "generate"


def test_the_solution_written_is_the_one_verified(example, tmp_path):
    output = tmp_path / "best.json"
    found = answer("solve", example, "--solver", "greedy", "--timeout", 60, "--output", output)
    assert answer("check", example, output)["cost"] == found["cost"]
    assert len(read_json(output)) == 5


@pytest.mark.gate
def test_the_newest_campaign_decides_what_counts(graph, tmp_path):
    results, ours = tmp_path / "results", tmp_path / "ours.py"
    code = """from shardmark.solvers.registry import solver
@solver(track="pipeline")
def ours(instance, run):
    return {}
"""
    run = ["run", "--instance", graph, "--solver", "ours", "--solver-path", ours, "--results", results]
    for split, cost in (([0, 0, 1, 1], 6.0), ([0, 0, 0, 0], 10.0), ([0, 0, 1, 1], 6.0)):
        ours.write_text(code.format(split))
        done = answer(*run)
        assert [row["cost"] for row in answer("results", "--results", results)] == [cost]
    assert done["started"] == 0  # the first version again: its run was there already
    answer(*run, "--timeout", 5)
    assert answer(*run)["started"] == 0
    assert [row["timeout_s"] for row in answer("results", "--results", results)] == [60.0]


def test_a_campaign_of_one_track_leaves_the_rest_of_its_suite_out(tmp_path):
    whole, part = (catalog.suite("smoke"), [entry for entry in catalog.suite("smoke") if entry.track == "pipeline"])
    assert 0 < len(part) < len(whole)
    found = answer("run", "--suite", "smoke", "--track", "pipeline", "--solver", "simple", "--results", tmp_path)
    assert found["runs"] == len(part)  # each track has a bound of this name


def test_a_leaderboard_of_one_suite_leaves_other_instances_out(graph, tmp_path):
    results, site = tmp_path / "results", tmp_path / "site"
    for which in (["--instance", graph], ["--suite", "smoke"]):
        answer("run", *which, "--solver", "simple", "--results", results)
    answer("leaderboard", "--results", results, "--output", site, "--suite", "smoke")
    pages = {path.name for path in site.rglob("instances/*/*.html")}
    assert "chain.html" in pages
    assert not any("chain.json" in name or "chain-json" in name for name in pages)


@pytest.mark.parametrize(
    ("instance", "options"),
    [
        ("example", ["--solver", "subnormal-bound", "--solver-path", ATTACK / "subnormal_bound.py"]),
        (ATTACK / "ratio_overflow.json", ["--solver", "random-1", "--solver", "simple"]),
    ],
    ids=["reported", "honest"],
)
def test_a_gap_beyond_float64_is_shown_as_such(instance, options, example, tmp_path):
    results, site, csv, parquet = (tmp_path / name for name in ("results", "site", "runs.csv", "runs.parquet"))
    answer("run", "--instance", example if instance == "example" else instance, *options, "--results", results)
    written = shardmark("results", "--results", results, "--csv", csv, "--parquet", parquet)
    message = "".join(f"wrote 2 rows to {path}\n" for path in (parquet, csv))
    assert (written.returncode, written.stdout) == (0, "")
    assert written.stderr == (message if instance != "example" else message.replace("2 rows", "1 row"))
    shown = shardmark("results", "--results", results)
    [header, *rows] = [line.split() for line in shown.stdout.splitlines()]
    assert {row[header.index("gap")] for row in rows} <= {">1e308", "-"}
    assert any(">1e308" in row for row in rows)
    assert {row["gap"] for row in answer("results", "--results", results)} == {None}
    gaps = [frame["gap"].drop_nulls().to_list() for frame in (pl.read_csv(csv), pl.read_parquet(parquet))]
    assert gaps == [[math.inf]] * 2
    answer("leaderboard", "--results", results, "--output", site)
    pages = [page.read_text() for page in site.rglob("*.html")]
    assert any("&gt;1e308×" in page for page in pages)
    assert not any(re.search(r"\b(inf|nan)\b", page) for page in pages)


def test_the_gap_of_one_run_beyond_float64_is_shown_as_such():
    command = ["solve", ATTACK / "ratio_overflow.json", "--solver", "random-1"]
    assert re.search(r"^gap +>1e308$", shardmark(*command).stdout, re.MULTILINE)
    assert answer(*command)["gap"] is None


def test_a_damaged_database_is_a_sentence(graph, tmp_path):
    results = tmp_path / "results"
    answer("run", "--instance", graph, "--solver", "simple", "--results", results)
    path = results / "results.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:40960] = b"x" * len(content[4096:40960])
    path.write_bytes(content)
    for command in (["results"], ["leaderboard", "--output", tmp_path / "site"]):
        result = shardmark(*command, "--results", results)
        assert result.returncode == 2
        assert result.stderr.startswith(f"shardmark: {path}: expected a results database that can be opened")


def test_results_of_a_folder_that_cannot_be_written_can_be_read(graph, tmp_path):
    results = tmp_path / "results"
    answer("run", "--instance", graph, "--solver", "simple", "--results", results)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "results.sqlite").write_bytes((results / "results.sqlite").read_bytes())
    copy.chmod(0o555)
    assert len(answer("results", "--results", copy)) == 1


@needs_isolation
def test_a_run_does_not_see_the_results_of_others(graph, tmp_path):
    results, ours = tmp_path / "results", tmp_path / "ours.py"
    ours.write_text(f"""from pathlib import Path
from shardmark.solvers.registry import solver
@solver(track="pipeline")
def ours(instance, run):
    run.report([0, 0, 1, 1] if list(Path({str(results)!r}).iterdir()) else [0, 0, 0, 0])
""")
    answer("run", "--instance", graph, "--solver", "ours", "--solver-path", ours, "--results", results)
    assert [row["cost"] for row in answer("results", "--results", results)] == [10.0]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_the_exit_status_as_in_shells(number, status, monkeypatch):
    monkeypatch.setattr(api, "load", lambda *_, **__: signal.raise_signal(number))
    result = shardmark("info", "chain")
    assert (result.returncode, result.stderr) == (status, "shardmark: interrupted\n")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_a_campaign_is_its_exit_status(number, status, graph, tmp_path, monkeypatch):
    begin = LocalExecutor.submit

    def interrupted(executor, job):
        signal.raise_signal(number)
        return begin(executor, job)

    monkeypatch.setattr(LocalExecutor, "submit", interrupted)
    what = ["run", "--instance", graph, "--solver", "random-1", "--solver", "simple", "--results", tmp_path / "r"]
    done = answer(*what, status=status)
    assert done["runs"] == 2
    assert done["ok"] < 2
