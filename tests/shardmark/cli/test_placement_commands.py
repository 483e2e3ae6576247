"""Placement on the command line: options choose the problem, and the verdict says what kind of placement it is."""

from __future__ import annotations

import pytest
from referee import refused

from shardmark.cli.arguments import main
from shardmark.instances import catalog
from shardmark.instances.files.jsonfile import read_json, write_json


@pytest.mark.parametrize(
    ("contiguity", "status", "cost"), [("contiguous", 0, 6.0), ("acyclic", 1, 6.0), ("free", 0, 6.0)]
)
def test_options_decide_what_is_feasible(answer, tmp_path, contiguity, status, cost):
    write_json(tmp_path / "split.json", [0, 1, 1, 0])
    found = answer("check", "crossing", tmp_path / "split.json", "--contiguity", contiguity, status=status)
    assert (found["feasible"], found["cost"], found["acyclic"]) == (not status, cost, False)


def test_options_of_the_catalog_can_be_overridden(answer):
    assert answer("info", "sandwich-latency")["objective"] == "latency"
    facts = answer("info", "sandwich-latency", "--objective", "throughput", "--overlap", "half", "--allreduce", "2.5")
    assert (facts["objective"], facts["overlap"], facts["allreduce"]) == ("throughput", "half", 2.5)


def test_a_file_is_solved_and_checked_with_the_same_options(answer, tmp_path):
    path = catalog.locate(catalog.find("sandwich-free"))
    options = ["--objective", "latency", "--timeout", "60"]
    found = answer("solve", path, "--solver", "greedy", *options, "--output", tmp_path / "split.json")
    assert (found["status"], found["cost"]) == ("ok", 11.75)
    assert read_json(tmp_path / "split.json") == [2, 0, 0, 1]
    assert answer("check", path, tmp_path / "split.json", *options[:2])["cost"] == 11.75
    assert answer("check", path, tmp_path / "split.json")["cost"] == 7.5


def test_a_gap_beyond_all_floats_is_shown_as_such(answer, capsys, tmp_path):
    """Two nodes that take hardly any time, and a tensor between them that takes very long."""
    node = {"cpuLatency": 1e-200, "fpgaLatency": 1e-200, "supportedOnFpga": True, "isBackwardNode": False}
    devices = {"maxFPGAs": 2, "maxCPUs": 0, "maxSizePerFPGA": 1}
    edges = [{"sourceId": 0, "destId": 1, "cost": 1e200}]
    write_json(tmp_path / "graph.json", {**devices, "nodes": [{"id": v, **node} for v in (0, 1)], "edges": edges})
    write_json(tmp_path / "split.json", [0, 1])
    found = answer("check", tmp_path / "graph.json", tmp_path / "split.json")
    assert (found["cost"], found["gap"]) == (1e200, None)
    assert 0 < found["lower_bound"] <= 1e-200
    assert main(["check", str(tmp_path / "graph.json"), str(tmp_path / "split.json")]) == 0
    assert ["gap", ">1e308"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_program_gets_the_options_in_its_file(answer, tmp_path):
    program = tmp_path / "program.sh"
    program.write_text('#!/bin/sh\ngrep -q \'"contiguity":"free"\' "$1" && echo "[2, 0, 1, 0]"\n')
    program.chmod(0o755)
    found = answer("solve", "sandwich-free", "--command", program, "--timeout", "60")
    assert found["cost"] == 6.75


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["info", "crossing", "--contiguity", "acyclic", "--objective", "latency"], "contiguity: expected contiguous"),
        (["info", "crossing", "--contiguity", "none"], "argument --contiguity: invalid choice"),
        (["info", "crossing", "--allreduce", "0"], "expected a positive number below 1e300, found '0'"),
        (["info", "crossing", "--stages", "3"], "option stages: expected an option of placement"),
        (["info", "chain", "--overlap", "half"], "option overlap: expected an option of pipeline"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(arguments, sentence):
    assert sentence in refused(*arguments)


def test_a_defective_file_is_one_sentence(tmp_path):
    document = read_json(catalog.locate(catalog.find("crossing")))
    document["edges"][0]["destId"] = 77
    write_json(tmp_path / "graph.json", document)
    sentence = refused("info", tmp_path / "graph.json")
    expected = "edges[0].destId: expected the id of a node, found 77"
    assert sentence == f"shardmark: {tmp_path / 'graph.json'}: {expected}\n"
