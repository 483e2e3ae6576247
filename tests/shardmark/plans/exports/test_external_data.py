"""External data: links within the model's folder are followed, and what cannot be used is named before the search."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import plan_folder, random_inputs, run, run_stages
from referee import refused

from shardmark.instances import InputError
from shardmark.plans.exports.annotated import export_annotated
from shardmark.plans.exports.external_data import external_data, locate_weights
from shardmark.plans.exports.onnx_graph import load, require_exportable
from shardmark.plans.exports.stages import export_stages
from shardmark.plans.runs import stage_runs
from shardmark.plans.runs.profile import profile
from shardmark.plans.runs.running import Session
from shardmark.plans.runs.stage_runs import verify
from shardmark.plans.runs.values import to_array, to_value

WEIGHTS = np.arange(256, dtype=np.float32).reshape(16, 16)
SPLIT = {"first": 0, "second": 1}


def model(folder: Path, location: str = "weights.bin", **entries: object) -> Path:
    """A product and a sum with a weight of 1,024 bytes at a location; without entries, of all of that file."""
    weight = numpy_helper.from_array(WEIGHTS, "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(value))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Add", ["a", "w"], ["y"], name="second"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return folder / "model.onnx"


def linked_file(folder: Path) -> Path:
    (folder / "blobs").mkdir()
    (folder / "blobs/1f0e").write_bytes(WEIGHTS.tobytes())
    (folder / "link").symlink_to("blobs/1f0e")
    (folder / "weights.bin").symlink_to("link")
    return model(folder)


def linked_folder(folder: Path) -> Path:
    (folder / "there").mkdir()
    (folder / "there/weights.bin").write_bytes(WEIGHTS.tobytes())
    (folder / "here").symlink_to("there")
    return model(folder, "there/../here/weights.bin", length=0)


def hard_link(folder: Path) -> Path:
    (folder / "other.bin").write_bytes(WEIGHTS.tobytes())
    os.link(folder / "other.bin", folder / "weights.bin")
    return model(folder)


def download_cache(folder: Path) -> Path:
    """Snapshots of links to blobs, as the cache of Hugging Face is."""
    for name in ("blobs", "snapshots/1/onnx"):
        (folder / name).mkdir(parents=True)
    model(folder / "blobs").rename(folder / "blobs/1234")
    (folder / "blobs/5678").write_bytes(WEIGHTS.tobytes())
    snapshot = folder / "snapshots/1/onnx"
    (snapshot / "model.onnx").symlink_to("../../../blobs/1234")
    (snapshot / "weights.bin").symlink_to("../../../blobs/5678")
    return snapshot / "model.onnx"


def within_a_file(folder: Path) -> Path:
    (folder / "weights.bin").write_bytes(b"\0" * 64 + WEIGHTS.tobytes() + b"\0")
    return model(folder, offset=64, length=1024)


@pytest.mark.parametrize("place", [linked_file, linked_folder, hard_link, download_cache, within_a_file])
def test_weights_are_found_by_exports_and_runs(place: Callable[[Path], Path], tmp_path: Path) -> None:
    path = place(tmp_path)
    require_exportable(path)
    export_stages(path, SPLIT, tmp_path / "stages")
    inputs = random_inputs(onnx.load(path, load_external_data=False))
    (output,) = run_stages(tmp_path / "stages", inputs).values()
    assert np.allclose(output, inputs["x"] @ WEIGHTS + WEIGHTS)
    assert not (tmp_path / "stages/stage-0.data").is_symlink()
    whole = load(path)
    locate_weights(whole, path)
    values = {name: to_value(array) for name, array in inputs.items()}
    assert np.array_equal(to_array(Session(whole, path).run(values)["y"]), output)


def test_a_folder_need_not_have_a_name_in_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_runs, "SECONDS", 0.0)
    folder = tmp_path / os.fsdecode(b"of\xff = mine")
    folder.mkdir()
    path = within_a_file(folder)
    assert verify(plan_folder(folder / "plan", path, SPLIT)).equal
    export_annotated(path, SPLIT, folder / "annotated.onnx")


def test_an_annotated_copy_has_the_weights_of_links(tmp_path: Path) -> None:
    export_annotated(linked_file(tmp_path), SPLIT, tmp_path / "annotated.onnx")
    (weight,) = onnx.load(tmp_path / "annotated.onnx").graph.initializer
    assert np.array_equal(numpy_helper.to_array(weight), WEIGHTS)


LOCATION = "expected external data at a path within the model's folder, found location"
DEFECTS = {
    "short": ({"length": 100}, "expected 1024 bytes of external data, found a length of 100"),
    "long": ({"length": 1025}, "expected 1024 bytes of external data, found a length of 1025"),
    "end": ({"offset": 1}, "expected 1024 bytes of external data from byte 1 on, found 1023, as the file has 1024"),
    "beyond": ({"offset": 4096}, "from byte 4096 on, found 0, as the file has 1024"),
    "negative": ({"offset": -4}, "expected the offset of external data as a whole number of bytes, found '-4'"),
    "words": ({"length": "all"}, "expected the length of external data as a whole number of bytes, found 'all'"),
    "digits": ({"offset": "9" * 5000}, "whole number of bytes, found '9999"),
    "parent": ({"location": "../weights.bin"}, f"{LOCATION} '../weights.bin'"),
    "absolute": ({"location": "/weights.bin"}, f"{LOCATION} '/weights.bin'"),
    "empty": ({"location": ""}, f"{LOCATION} ''"),
    "null": ({"location": "a\0b"}, LOCATION),
    "missing": ({"location": "missing.bin"}, "expected its external data (there is no such file)"),
    "name": ({"location": "x" * 300}, "expected its external data (File name too long)"),
    "below": ({"location": "weights.bin/data"}, "expected its external data (Not a directory)"),
    "broken": ({"location": "broken"}, "expected its external data (there is no such file)"),
    "circle": ({"location": "circle"}, "expected its external data ("),
    "outside": ({"location": "outside"}, "expected external data within the model's folder, found a link to "),
    "folder": ({"location": "folder"}, "expected a regular file of external data, found a folder"),
    "pipe": ({"location": "pipe"}, "expected a regular file of external data, found a pipe or a device"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_cannot_be_used_is_named(defect: str, tmp_path: Path) -> None:
    entries, words = DEFECTS[defect]
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(WEIGHTS.tobytes())
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    for link, target in (("broken", "nowhere"), ("circle", "circle"), ("outside", "../weights.bin")):
        (folder / link).symlink_to(target)
    os.mkfifo(folder / "pipe")
    path = model(folder, **entries)  # type: ignore[arg-type]
    before = set(tmp_path.rglob("*"))
    for attempt in (
        lambda: require_exportable(path),
        lambda: export_stages(path, SPLIT, tmp_path / "stages"),
        lambda: export_annotated(path, SPLIT, tmp_path / "annotated.onnx"),
        lambda: profile(path),
    ):
        with pytest.raises(InputError) as raised:
            attempt()
        assert words in str(raised.value)
        assert ": tensor w: " in str(raised.value)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["stages", "annotated"])
def test_a_wrong_length_is_refused_before_the_search(kind: str, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    path = model(tmp_path, offset=0, length=100)
    told = refused("plan", path, "--devices", 2, "--export", kind, "--output", tmp_path / "plan")
    assert told == f"shardmark: {path.parent}/weights.bin: tensor w: {DEFECTS['short'][1]}\n"
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize(
    ("kind", "dims", "needed"),
    [
        *(("INT4", [3, 5], 8), ("UINT2", [3, 3], 3), ("FLOAT4E2M1", [1], 1), ("BOOL", [0, 4], 0)),
        *(("FLOAT8E4M3FN", [3], 3), ("BFLOAT16", [3], 6), ("DOUBLE", [], 8), ("COMPLEX128", [2], 32)),
    ],
)
def test_numbers_of_less_than_a_byte_are_packed(kind: str, dims: list[int], needed: int, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(100))
    tensor = TensorProto(name="w", dims=dims, data_type=TensorProto.DataType.Value(kind))
    tensor.external_data.add(key="location", value="weights.bin")
    assert external_data(tensor, tmp_path / "model.onnx").bytes == needed


def test_texts_have_no_external_data(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(100))
    tensor = TensorProto(name="w", dims=[2], data_type=TensorProto.STRING)
    tensor.external_data.add(key="location", value="weights.bin")
    with pytest.raises(InputError, match="tensor w: expected a tensor of numbers, found data type 8"):
        external_data(tensor, tmp_path / "model.onnx")


def test_tensors_may_share_bytes(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    path = model(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer.add().CopyFrom(proto.graph.initializer[0])
    proto.graph.initializer[1].name = "v"
    proto.graph.node[1].input[1] = "v"
    path.write_bytes(proto.SerializeToString())
    export_stages(path, SPLIT, tmp_path / "stages")
    inputs = random_inputs(proto)
    assert np.array_equal(run_stages(tmp_path / "stages", inputs)["y"], run(path, inputs)["y"])


def functions_of_operator_set(version: int) -> onnx.ModelProto:
    """A model of operator set 21 that calls a function of another one."""
    opsets = [helper.make_opsetid("", version)]
    function = helper.make_function("f", "F", ["x"], ["y"], [helper.make_node("Softmax", ["x"], ["y"])], opsets)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("F", ["x"], ["y"], domain="f")], "graph", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[function])


def test_versions_that_no_export_can_have_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    proto = functions_of_operator_set(17)
    onnx.save(proto, path)
    require_exportable(path)
    onnx.save(functions_of_operator_set(99), path)
    with pytest.raises(InputError, match="function F: expected operators of at most version"):
        require_exportable(path)
    proto.ir_version = 99
    onnx.save(proto, path)
    with pytest.raises(InputError, match=r"expected a valid model \(Your model ir_version 99"):
        require_exportable(path)
