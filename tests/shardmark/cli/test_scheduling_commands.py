"""Scheduling on the command line: a pair solves, the verdict names what is wrong, bad input is one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from referee import refused

from shardmark.instances import catalog, load
from shardmark.instances.files.jsonfile import read_json, write_json


def solution(device, *order):
    return {"device": device, "order": [list(part) for part in order]}


@pytest.mark.parametrize(("options", "cost"), [([], 10), (["--links", "queue"], 10), (["--links", "share"], 11)])
def test_options_decide_what_a_schedule_takes(answer, tmp_path, options, cost):
    write_json(tmp_path / "schedule.json", solution([1, 0, 0, 1, 1], [1, 2], [0, 3, 4]))
    found = answer("check", "fork-join", tmp_path / "schedule.json", *options)
    assert (found["feasible"], found["cost"]) == (True, cost)
    assert {key: found[key] for key in ("links", "holding") if key in found} == dict(
        zip(["links"], options[1:], strict=False)
    )


def test_a_verdict_names_the_vertex_the_device_and_the_time(answer, tmp_path):
    write_json(tmp_path / "schedule.json", solution([0, 0, 1, 1, 0], [0, 1, 4], [2, 3]))
    found = answer("check", "waiting-room", tmp_path / "schedule.json", status=1)
    assert (found["feasible"], found["cost"]) == (False, 10)
    expected = "device 1: expected less than its memory 2 at every moment, found 2 at time 3"
    assert found["violations"] == [f"{expected}, when an input of vertex 3 is there"]
    write_json(tmp_path / "schedule.json", {"device": [0] * 5, "priority": [1] * 5})
    found = answer("check", "fork-join", tmp_path / "schedule.json", status=1)
    assert found["violations"][0] == "device[0]: expected one of the devices 1, found 0"


def test_what_is_solved_can_be_checked(answer, tmp_path):
    path = catalog.locate(catalog.find("dataflow-60"))
    found = answer("solve", path, "--solver", "heft-pct", "--timeout", 60, "--output", tmp_path / "schedule.json")
    assert found["status"] == "ok"
    assert found["lower_bound"] is None or found["lower_bound"] <= found["cost"]
    again = answer("check", path, tmp_path / "schedule.json")
    assert (again["feasible"], again["cost"]) == (True, found["cost"])


def test_all_pairs_are_solvers_and_instances_are_listed(answer):
    names = {row["name"] for row in answer("list", "solvers") if row["track"] == "scheduling"}
    partitioners = ("hash", "batch-split", "critical-path", "mite", "dfs", "heft")
    assert names >= {
        f"{partitioner}-{scheduler}" for partitioner in partitioners for scheduler in ("fifo", "pct", "msr")
    }
    ids = {row["id"] for row in answer("list", "instances") if row["track"] == "scheduling"}
    assert ids >= {"fork-join", "dataflow-60", "convolutional-training", "dynamic-recurrent-training"}


def test_the_optimum_published_of_a_drawn_instance_is_a_schedule_s_cost_and_a_bound(answer):
    published = catalog.find("dataflow-12").published
    best, bound = float(published["best_cost"]), float(published["lower_bound"])
    assert bound < best < bound * (1 + 1e-10)
    assert bound <= answer("bound", "dataflow-12", "--method", "critical-path", "--timeout", 60)["lower_bound"]
    found = answer("solve", "dataflow-12", "--solver", "dfs-pct", "--timeout", 60)
    assert (found["cost"], found["optimal"], found["gap"]) == (pytest.approx(best, rel=1e-12), True, 0)


def test_tiny_instances_have_all_that_a_solver_may_meet():
    tiny = [load(catalog.locate(e), **e.options) for e in catalog.suite("tiny") if e.track == "scheduling"]
    assert {x.links for x in tiny} == {"independent", "queue", "share"}
    assert any(x.holding == "reserved" and np.isfinite(x.memory).any() for x in tiny)
    assert any((x.colocation >= 0).any() and (x.choice >= 0).any() for x in tiny)


def test_a_run_of_a_family_and_its_facts(answer, tmp_path):
    graph = tmp_path / "graph.json"
    answer("generate", "random-dataflow", "--nodes", 20, "--devices", 3, "--links", "queue", "--output", graph)
    facts = answer("info", graph)
    assert (facts["track"], facts["nodes"], facts["devices"], facts["links"]) == ("scheduling", 20, 3, "queue")
    results = tmp_path / "results"
    what = ["--solver", "hash-fifo", "--solver", "critical-path-msr", "--timeout", 60]
    answer("run", "--instance", graph, *what, "--results", results)
    rows = answer("results", "--results", results)
    assert [(row["status"], row["cost"] is not None) for row in rows] == [("ok", True)] * 2


NODES = {"complexity": [1, 2]}
PLAIN = {
    "format": "shardmark/scheduling/1",
    "nodes": NODES,
    "edges": [[0, 1, 5]],
    "devices": {"speed": [1, 1], "memory": [9, 9]},
    "bandwidth": 1,
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"nodes": {**NODES, "colocation": [0, 0], "devices": [[0], [1]]}},
            "nodes.devices[1]: expected a device for its whole colocation group, including vertex 0, found none",
        ),
        ({"nodes": {**NODES, "devices": [[], None]}}, "nodes.devices[0]: expected null or at least one device"),
        (
            {"nodes": {**NODES, "devices": [[2], None]}},
            "nodes.devices[0]: expected device numbers from 0 to 1, found 2",
        ),
        (
            {"devices": {"speed": [1, 1], "memory": [4, 5]}, "options": {"holding": "reserved"}},
            "nodes[1]: expected a device with memory above 5, the size of its inputs, found at most 5",
        ),
        ({"devices": {"speed": [1, 0]}}, "devices.speed[1]: expected a positive number, found 0"),
        (
            {"nodes": {**NODES, "devices": [[0], [1]]}, "bandwidth": 0},
            "edges[0]: expected a link between some device of its tail and some device of its head, found bandwidth 0",
        ),
        ({"edges": [[0, 1, 1], [1, 0, 1]]}, "edges[0]: expected a graph without cycles"),
    ],
)
def test_a_defective_file_is_one_sentence(tmp_path, change, sentence):
    path = tmp_path / "graph.json"
    write_json(path, {**PLAIN, **change})
    for command in (["info", path], ["solve", path, "--solver", "heft-pct"]):
        message = refused(*command)
        assert message.startswith(f"shardmark: {path}: {sentence}")
        assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["info", "fork-join", "--links", "tangled"], "argument --links: invalid choice"),
        (["info", "chain", "--links", "queue"], "option links: expected an option of pipeline"),
        (["info", "fork-join", "--stages", "3"], "option stages: expected an option of scheduling"),
        (["solve", "fork-join", "--solver", "heft-pctt"], "did you mean 'heft-pct'"),
        (
            ["generate", "random-dataflow", "--links", "loose", "--output", "graph.json"],
            "--links: expected one of independent, queue, share",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(*arguments)
    assert not any(tmp_path.iterdir())


def test_a_solution_that_is_none_is_a_verdict(answer, tmp_path):
    write_json(tmp_path / "schedule.json", [0, 1])
    found = answer("check", "fork-join", tmp_path / "schedule.json", status=1)
    assert found["violations"] == [
        "solution: expected the keys device and order, or device and priority, found a list of 2"
    ]
    assert read_json(tmp_path / "schedule.json") == [0, 1]
