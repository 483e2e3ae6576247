"""The command ``shardmark import``: what it offers comes from the importers, what it writes is an instance."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import onnx.backend.test
import pytest

from shardmark.cli.arguments import main
from shardmark.instances import load, track_module
from shardmark.instances.importers import Option, importers

ZFNET = Path(onnx.backend.test.__file__).parent / "data" / "light" / "light_zfnet512.onnx"
GRAPH = 'node { name: "a" output_info { size: 3 } compute_cost: 2 }\nnode { name: "b" id: 1 input_info { } }\n'


def test_every_module_without_an_underscore_is_an_importer():
    assert {"cost-graph", "graph-def", "placement", "to-scheduling"} <= importers().keys()
    for module in importers().values():
        assert isinstance(module, ModuleType)
        assert track_module(module.TRACK)
        assert all(isinstance(option, Option) for option in module.OPTIONS.values())
        assert callable(module.read)


@pytest.mark.parametrize("name", importers())
def test_help_names_every_option_and_has_an_example(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["import", name, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"example: shardmark import {name} FILE" in shown
    for option in importers()[name].OPTIONS:
        assert f"--{option}" in shown


def test_an_imported_file_is_an_instance(tmp_path, capsys):
    (tmp_path / "graph.pbtxt").write_text(GRAPH)
    output = tmp_path / "graph.json.gz"
    arguments = ["import", "cost-graph", str(tmp_path / "graph.pbtxt"), "--stages", "2", "--bandwidth", "4"]
    assert main([*arguments, "--output", str(output), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["output"], facts["track"], facts["nodes"], facts["edges"]) == (str(output), "pipeline", 2, 1)
    instance = load(output)
    assert (instance.stages, instance.bandwidth, instance.node_names) == (2, 4.0, ("a", "b"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["cost-graph", "FILE", "--output", "OUT"],
            "expected a number in the file, or --stages N (stages=N in Python)",
        ),
        (["cost-graph", "nowhere.pbtxt", "--stages", "2", "--output", "OUT"], "expected a file, found nothing"),
        (["cost-graph", "FILE", "--stages", "two", "--output", "OUT"], "expected a whole number, found 'two'"),
        (["cost-graph", "FILE", "--stages", "0", "--output", "OUT"], "stages: expected 1 to 2147483647, found 0"),
        (["cost-graph", "FILE", "--stages", "2", "--bandwidth", "0", "--output", "OUT"], "expected a positive number"),
        (["cost-graph", "FILE", "--tensors", "some", "--output", "OUT"], "invalid choice: 'some'"),
        (["cost-graph", "FILE", "--stages", "2"], "--output"),
        (["placement", "FILE", "--output", "OUT"], "line 1 column 1: expected JSON"),
        (["onnx", "FILE", "--output", "OUT"], "expected an ONNX model, found bytes that do not decode as one"),
        ([], "FORMAT"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_sentence_and_exit_2(arguments, sentence, tmp_path, capsys):
    (tmp_path / "graph.pbtxt").write_text(GRAPH)
    places = {"FILE": str(tmp_path / "graph.pbtxt"), "OUT": str(tmp_path / "out.json")}
    try:
        status = main(["import", *(places.get(word, word) for word in arguments)])
    except SystemExit as ended:
        status = ended.code
    error = capsys.readouterr().err
    assert status == 2
    assert sentence in error
    assert "Traceback" not in error
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("given", "track", "nodes"),
    [
        (["--stages", "4"], "pipeline", 22),
        (["--stages", "4", "--fuse", "--device", "t4"], "pipeline", None),
        (["--track", "placement", "--accelerators", "2", "--cpus", "2"], "placement", 22),
        (["--track", "scheduling", "--machine", "MACHINE"], "scheduling", 22),
        (["--track", "intraop", "--mesh", "2x2"], "intraop", None),
    ],
)
def test_an_onnx_model_is_an_instance_of_the_chosen_track(given, track, nodes, tmp_path, capsys):
    output, machine = tmp_path / "instance.json", tmp_path / "machine.json"
    machine.write_text('{"devices": {"speed": [1, 2]}, "bandwidth": 1000}')
    given = [str(machine) if word == "MACHINE" else word for word in given]
    assert main(["import", "onnx", str(ZFNET), *given, "--output", str(output), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["track"] == track == load(output).track
    assert nodes in (None, facts["nodes"])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "--stages: expected --stages N for track pipeline"),
        (["--stages", "2", "--mesh", "2"], "--mesh: expected no such option for track pipeline"),
        (["--track", "placement", "--accelerators", "0"], "--accelerators: expected at least one"),
        (["--track", "scheduling", "--machine", "nowhere.json"], "expected a file, found nothing of that name"),
        (["--track", "intraop"], "--mesh: expected --mesh AxB for track intraop"),
        (["--stages", "2", "--device", "abacus"], "expected a file *.toml, or one of"),
        (["--stages", "2", "--dim", "batch"], "expected NAME=VALUE, found 'batch'"),
        (["--stages", "2", "--dim", "batch=0"], "expected"),
        (
            ["--stages", "2", "--dim", "batch=2"],
            "size batch: expected no such size, as the model's sizes are all numbers",
        ),
    ],
)
def test_options_of_models_that_do_not_fit_are_refused_in_one_sentence(given, sentence, tmp_path, capsys):
    arguments = ["import", "onnx", str(ZFNET), *given, "--output", str(tmp_path / "instance.json")]
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = ended.code
    shown = capsys.readouterr().err
    assert (status, sentence in shown, list(tmp_path.iterdir())) == (2, True, [])


@pytest.mark.usefixtures("stablehlo_in_process")
@pytest.mark.parametrize(
    ("given", "track"), [(["--stages", "4"], "pipeline"), (["--track", "intraop", "--mesh", "2x4"], "intraop")]
)
def test_a_training_step_is_an_instance_of_the_chosen_track(given, track, tmp_path, capsys):
    step = Path(__file__).parents[2] / "data" / "stablehlo" / "lstm.bin.gz"
    output = tmp_path / "instance.json"
    assert main(["import", "stablehlo", str(step), *given, "--output", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["track"] == track
    assert load(output).track == track
