"""GraphDefs become data flows with the edges, groups, devices and weights that they say, and defects are told."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest
from referee import refusal, refused, shardmark

from shardmark.harness.verify import verify
from shardmark.instances import InputError, load
from shardmark.instances.importers import graph_def
from shardmark.instances.importers._device_specs import Devices, spec
from shardmark.instances.scheduling import Instance

OPTIONS: dict[str, Any] = {name: option.default for name, option in graph_def.OPTIONS.items()}
CPU, GPU = "/job:worker/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:{}/device:GPU:{}"


def node(name: str, op: str, *inputs: str, device: str = "", **attributes: str) -> str:
    """A node; values of attributes are text protos."""
    fields = [f'name: "{name}"', f'op: "{op}"', *(f'input: "{text}"' for text in inputs)]
    fields += [f'device: "{device}"'] if device else []
    fields += [f'attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attributes.items()]
    return f"node {{ {' '.join(fields)} }}\n"


def dims(*sizes: int) -> str:
    return f"shape {{ {' '.join(f'dim {{ size: {size} }}' for size in sizes)} }}"


def shapes(*each: tuple[int, ...]) -> str:
    return f"list {{ {' '.join(dims(*sizes) for sizes in each)} }}"


SAME = 's: "loc:@{}"'


def colocated_with(*names: str) -> str:
    return f"list {{ {' '.join(SAME.format(name) for name in names)} }}"


FLOAT = "type: DT_FLOAT"


def made(name: str, op: str, *inputs: str, shape: tuple[int, ...] = (), T: str = FLOAT, **more: str) -> str:  # noqa: N803
    return node(name, op, *inputs, T=T, _output_shapes=shapes(shape), **more)


def read(tmp_path: Any, text: str | bytes, name: str = "graph.pbtxt", **options: Any) -> Instance:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return graph_def.read(path, **{**OPTIONS, **options})


def edges(instance: Instance) -> dict[tuple[str, str], float]:
    names = instance.node_names
    ends = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True)
    return {(names[u], names[v]): size for (u, v), size in zip(ends, instance.size.tolist(), strict=True)}


def groups(instance: Instance) -> list[set[str]]:
    members = [np.flatnonzero(instance.colocation == g) for g in range(int(instance.colocation.max()) + 1)]
    return [{instance.node_names[v] for v in group} for group in members]


def complexity(instance: Instance) -> dict[str, float]:
    return dict(zip(instance.node_names, instance.complexity.tolist(), strict=True))


LAYER = (
    "# a layer and a step of its training\n"
    + node("x", "Placeholder", dtype=FLOAT, shape=dims(-1, 8))
    + node("w", "VariableV2", dtype=FLOAT, shape=dims(8, 4), device="/job:worker/task:1")
    + made("w/read", "Identity", "w", shape=(8, 4), _class=colocated_with("w"))
    + made("product", "MatMul", "x", "w/read", shape=(-1, 4), device="/gpu:0")
    + node("parts", "Split", "product", T=FLOAT, _output_shapes=shapes((-1, 1), (-1, 3)))
    + made("sum", "AddN", "parts", "parts:1", "parts:1", "^x", shape=(-1, 3))
    + made("gradient", "MatMul", "x:0", "sum", shape=(8, 4), transpose_a="b: true")
    + made("step", "ApplyGradientDescent", "w", "gradient", shape=(8, 4))
    + node("done", "NoOp", "^step", "^sum")
    + "versions { producer: 21 min_consumer: 12 }\n"
)


def test_a_layer_has_the_sizes_and_operations_of_its_shapes(tmp_path: Any) -> None:
    instance = read(tmp_path, LAYER, batch=5, devices=10)
    assert (instance.name, instance.devices) == ("graph", 10)
    assert instance.node_names == ("x", "w", "w/read", "product", "parts", "sum", "gradient", "step", "done")
    assert edges(instance) == {
        ("x", "product"): 5 * 8 * 4,
        ("w", "w/read"): 8 * 4 * 4,
        ("w/read", "product"): 8 * 4 * 4,
        ("product", "parts"): 5 * 4 * 4,
        ("parts", "sum"): 5 * 1 * 4 + 5 * 3 * 4,  # both outputs, and each once
        ("x", "sum"): 0,
        ("x", "gradient"): 5 * 8 * 4,
        ("sum", "gradient"): 5 * 3 * 4,
        ("w", "step"): 0,  # by reference
        ("gradient", "step"): 8 * 4 * 4,
        ("step", "done"): 0,
        ("sum", "done"): 0,
    }
    assert complexity(instance) == {
        **dict.fromkeys(("x", "w", "w/read", "done"), 0),
        "product": 2 * 5 * 4 * 8,
        "parts": 5 * 4,
        "sum": 5 * (3 + 3),
        "gradient": 2 * 8 * 4 * 5,
        "step": 8 * 4,
    }
    assert groups(instance) == [{"w", "w/read", "step"}]


def test_device_names_restrict_to_the_devices_that_they_mean(tmp_path: Any) -> None:
    instance = read(tmp_path, LAYER, batch=1, devices=12)
    assert instance.device_names[0] == CPU
    assert instance.device_names[6] == GPU.format(1, 0)
    allowed = {
        name: None if c < 0 else instance.choices[c].tolist()
        for name, c in zip(instance.node_names, instance.choice.tolist(), strict=True)
    }
    assert {name: devices for name, devices in allowed.items() if devices} == {
        "w": [5, 6, 7, 8, 9],
        "product": [1, 6, 11],
    }
    assert (read(tmp_path, LAYER, batch=1, devices=3, placement="free").choice == -1).all()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "/job:ps/replica:0/task:03/device:GPU:2",
            {"job": "ps", "replica": "0", "task": "3", "type": "GPU", "index": "2"},
        ),
        ("/gpu:1", {"type": "GPU", "index": "1"}),
        ("/device:cpu:*", {"type": "CPU"}),
        ("/device:GPU", {"type": "GPU"}),
        ("/job:*/task:*", {}),
        ("/task:4/job:a", {"task": "4", "job": "a"}),
        ("", {}),
        ("gpu:0", None),
        ("/job:a/job:b", None),
        ("/task:x", None),
        ("/gpu:0:1", None),
        ("/job:a//gpu:0", None),
        ("/", None),
    ],
)
def test_names_of_devices_say(text: str, parts: dict[str, str] | None) -> None:
    assert spec(text) == parts


def test_a_device_is_meant_by_its_own_name_whatever_it_is() -> None:
    devices = Devices(["fast one", "/gpu:0", "/job:a/gpu:1"])
    assert devices.meant("fast one") == [0]
    assert devices.meant("/device:GPU:0") == [1]
    assert devices.meant("/gpu:*") == [1, 2]
    assert devices.meant("/job:b") == []
    assert devices.meant("slow one") is None


def test_groups_merge_through_common_members_and_names_that_are_no_nodes(tmp_path: Any) -> None:
    text = "".join(
        (
            node("a", "NoOp"),
            node("b", "NoOp", _class=colocated_with("a")),
            node("c", "NoOp", _class=colocated_with("b", "pruned")),
            node("d", "NoOp", _class=colocated_with("pruned")),
            node("e", "NoOp", _class='list { s: "other:@a" }'),
            node("f", "NoOp", _class=colocated_with("f")),
            node("g", "NoOp", device="@e"),
            node("handle", "VarHandleOp", dtype=FLOAT, shape=dims(2), _output_shapes=shapes(())),
            node("inside", "Enter", "handle", T="type: DT_RESOURCE", _output_shapes=shapes(())),
            node("value", "ReadVariableOp", "inside", dtype=FLOAT, _output_shapes=shapes((2,))),
            made("double", "Mul", "value", "value", shape=(2,)),
            node("array", "TensorArray", "double", dtype=FLOAT, _output_shapes=shapes((2,))),
            node("here", "RefEnter", "array", T="type: DT_STRING", _output_shapes=shapes((2,))),
            made("write", "TensorArrayWrite", "here", "double", shape=()),
        )
    )
    instance = read(tmp_path, text)
    assert groups(instance) == [
        {"a", "b", "c", "d"},
        {"e", "g"},
        {"handle", "inside", "value"},
        {"array", "here", "write"},
    ]
    assert edges(instance) == {
        **dict.fromkeys((("handle", "inside"), ("inside", "value"), ("array", "here"), ("here", "write")), 0),
        **dict.fromkeys((("value", "double"), ("double", "array"), ("double", "write")), 8),
    }


def loop() -> str:
    """Counts to ten, as TensorFlow writes while loops down."""
    integer, scalar = "type: DT_INT32", shapes(())
    return "".join(
        (
            node("zero", "Const", dtype=integer, value="tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 }"),
            node("enter", "Enter", "zero", T=integer, _output_shapes=scalar),
            node("merge", "Merge", "enter", "next", T=integer, _output_shapes=shapes((), ())),
            node("ten", "Const", "^merge", dtype=integer, value="tensor { dtype: DT_INT32 tensor_shape { } }"),
            node("less", "Less", "merge", "ten", T=integer, _output_shapes=scalar),
            node("condition", "LoopCond", "less", _output_shapes=scalar),
            node(
                "switch",
                "Switch",
                "merge",
                "condition",
                T=integer,
                _class=colocated_with("merge"),
                _output_shapes=shapes((), ()),
            ),
            node("body", "Identity", "switch:1", T=integer, _output_shapes=scalar),
            node("add", "Add", "body", "body", T=integer, _output_shapes=scalar),
            node("next", "NextIteration", "add", T=integer, _output_shapes=scalar),
            node("exit", "Exit", "switch", T=integer, _output_shapes=scalar),
        )
    )


def test_a_loop_goes_round_once_and_leaves_with_what_the_body_made(tmp_path: Any) -> None:
    instance = read(tmp_path, loop(), loops="once")
    assert edges(instance) == {
        ("zero", "enter"): 4,
        ("enter", "merge"): 4,
        ("merge", "ten"): 0,
        ("merge", "less"): 4,
        ("ten", "less"): 4,
        ("less", "condition"): 1,
        ("merge", "switch"): 4,
        ("condition", "switch"): 1,
        ("switch", "body"): 4,
        ("body", "add"): 4,
        ("add", "next"): 4,
        ("next", "exit"): 4,
    }
    assert groups(instance) == [{"merge", "switch"}]
    with pytest.raises(InputError, match="node 'merge': expected a graph without while loops, or `--loops once`"):
        read(tmp_path, loop())


def test_types_of_outputs_decide_their_sizes(tmp_path: Any) -> None:
    long = "type: DT_INT64"
    text = "".join(
        (
            made("x", "Relu", shape=(10, 6)),
            node("best", "ArgMax", "x", T=FLOAT, _output_shapes=shapes((10,))),
            node("short", "ArgMax", "x", T=FLOAT, output_type="type: DT_INT32", _output_shapes=shapes((10,))),
            node("half", "Cast", "x", SrcT=FLOAT, DstT="type: DT_HALF", _output_shapes=shapes((10, 6))),
            node("same", "Equal", "best", "best", T=long, _output_shapes=shapes((10,))),
            node("top", "TopKV2", "x", T=FLOAT, _output_shapes=shapes((10, 2), (10, 2))),
            node(
                "next",
                "IteratorGetNext",
                output_types="list { type: [DT_INT64, DT_UINT8] }",
                _output_shapes=shapes((7,), (7,)),
            ),
            node("end", "NoOp2", "best", "short", "half", "same", "top:1", "next:1", _output_shapes="list { }"),
        )
    )
    found = {tail: size for (tail, head), size in edges(read(tmp_path, text)).items() if head == "end"}
    assert found == {"best": 80, "short": 40, "half": 120, "same": 10, "top": 80, "next": 7}


@pytest.mark.parametrize(
    ("op", "port", "attributes", "size"),
    [
        ("ConcatOffset", 1, {}, 4),
        ("TensorArrayGradV3", 1, {"source": 's: "gradients"'}, 4),
        ("TensorArrayV3", 1, {"dtype": "type: DT_DOUBLE"}, 4),
        ("TensorArrayWriteV3", 0, {"T": "type: DT_DOUBLE"}, 4),
        ("TensorArrayReadV3", 0, {"dtype": "type: DT_DOUBLE"}, 8),
        ("TensorArraySizeV3", 0, {}, 4),
        ("QueueSizeV2", 0, {}, 4),
        ("TopKV2", 1, {"T": FLOAT, "index_type": "type: DT_INT64"}, 8),
        ("MaxPoolWithArgmax", 1, {"T": FLOAT, "ksize": "list { i: 2 }"}, 8),
        ("Bitcast", 0, {"T": FLOAT, "type": "type: DT_INT8"}, 1),
        ("Multinomial", 0, {"T": FLOAT}, 8),
        ("Multinomial", 0, {"T": FLOAT, "output_dtype": "type: DT_INT32"}, 4),
        ("TensorSliceDataset", 0, {"Toutput_types": "list { type: DT_FLOAT }"}, 0),
    ],
)
def test_types_that_no_usual_attribute_says(
    op: str, port: int, attributes: dict[str, str], size: int, tmp_path: Any
) -> None:
    text = node("x", op, _output_shapes=shapes((), ()), **attributes)
    text += node("end", "NoOp", f"x:{port}")
    assert edges(read(tmp_path, text)) == {("x", "end"): size}


def test_optimisers_take_what_they_keep_of_a_variable_by_reference(tmp_path: Any) -> None:
    names = ("var", "m", "v", "power")
    text = "".join(node(name, "VariableV2", dtype=FLOAT, shape=dims(8)) for name in names)
    text += made("g", "Relu", shape=(8,)) + made("adam", "ApplyAdam", *names, "g", shape=(8,))
    text += made("rows", "Relu", shape=(2,))
    text += made("scatter", "ScatterAdd", "adam", "rows", "rows", shape=(8,))
    text += node("switch", "RefSwitch", "scatter", "g", T=FLOAT, _output_shapes=shapes((8,), (8,)))
    text += made("same", "RefIdentity", "switch:1", shape=(8,))
    text += made("index", "ScatterNd", "power", "rows", "rows", shape=(2,))
    instance = read(tmp_path, text)
    assert groups(instance) == [{"var", "m", "v", "adam", "scatter", "switch", "same"}]
    moved = {ends: size for ends, size in edges(instance).items() if size}
    assert moved == {
        ("power", "adam"): 32,
        ("g", "adam"): 32,
        ("rows", "scatter"): 8,
        ("g", "switch"): 32,
        ("power", "index"): 32,
        ("rows", "index"): 8,
    }
    assert [complexity(instance)[name] for name in ("adam", "scatter")] == [8, 2]


def test_only_what_is_fetched_and_what_it_needs(tmp_path: Any) -> None:
    saver = node("restored", "RestoreV2", dtypes="list { type: DT_FLOAT }", _output_shapes="list { shape { } }")
    saver = saver.replace("shape { }", "shape { unknown_rank: true }") + made("assign", "Assign", "w", "restored")
    instance = read(tmp_path, LAYER + saver, batch=5, fetch="gradient:0,w")
    assert instance.node_names == ("x", "w", "w/read", "product", "parts", "sum", "gradient")
    assert groups(instance) == [{"w", "w/read"}]
    assert read(tmp_path, loop(), loops="once", fetch="exit").nodes == 11
    for fetch, found in (("gradient, w", "' w'"), ("", "''"), ("^nothing", "'^nothing'")):
        with pytest.raises(InputError, match="--fetch: expected names of nodes, separated by commas, found ") as caught:
            read(tmp_path, LAYER, fetch=fetch)
        assert str(caught.value).endswith(found)
    with pytest.raises(InputError, match="node 'restored': expected a shape of output 0, `--fetch` without it"):
        read(tmp_path, LAYER + saver, batch=5)


@pytest.mark.parametrize(
    ("op", "inputs", "shape", "more", "count"),
    [
        ("Conv2D", [(2, 9, 9, 3), (3, 3, 3, 16)], (2, 7, 7, 16), {}, 2 * (2 * 7 * 7 * 16) * (3 * 3 * 3)),
        ("Conv2DBackpropInput", [(4,), (3, 3, 3, 16), (2, 7, 7, 16)], (2, 9, 9, 3), {}, 2 * (2 * 7 * 7 * 16) * 27),
        ("Conv2DBackpropFilter", [(2, 9, 9, 3), (4,), (2, 7, 7, 16)], (3, 3, 3, 16), {}, 2 * (2 * 7 * 7 * 16) * 27),
        ("DepthwiseConv2dNative", [(1, 9, 9, 3), (3, 3, 3, 2)], (1, 7, 7, 6), {}, 2 * (7 * 7 * 6) * 9),
        ("BatchMatMulV2", [(5, 2, 3), (5, 3, 4)], (5, 2, 4), {}, 2 * 5 * 2 * 4 * 3),
        ("BatchMatMul", [(5, 3, 2), (5, 3, 4)], (5, 2, 4), {"adj_x": "b: true"}, 2 * 5 * 2 * 4 * 3),
        ("MaxPool", [(1, 8, 8, 4)], (1, 4, 4, 4), {"ksize": "list { i: [1, 2, 2, 1] }"}, 4 * 4 * 4 * 4),
        (
            "MaxPoolGrad",
            [(1, 8, 8, 4), (1, 4, 4, 4), (1, 4, 4, 4)],
            (1, 8, 8, 4),
            {"ksize": "list { i: [2, 2] }"},
            64 * 4,
        ),
        ("MaxPoolWithArgmax", [(1, 8, 8, 4)], (1, 4, 4, 4), {"ksize": "list { i: [1, 2, 2, 1] }"}, 4 * 4 * 4 * 4),
        ("_FusedConv2D", [(2, 9, 9, 3), (3, 3, 3, 16), (16,)], (2, 7, 7, 16), {}, 2 * (2 * 7 * 7 * 16) * (3 * 3 * 3)),
        ("Conv3D", [(1, 4, 9, 9, 3), (2, 3, 3, 3, 5)], (1, 3, 7, 7, 5), {}, 2 * (3 * 7 * 7 * 5) * (2 * 3 * 3 * 3)),
        ("_FusedMatMul", [(5, 2), (5, 3), (3,)], (2, 3), {"transpose_a": "b: true"}, 2 * 2 * 3 * 5),
        ("Einsum", [(5, 2, 3), (5, 7, 3)], (5, 2, 7), {"equation": 's: "btd,bsd->bts"'}, 2 * 5 * 2 * 7 * 3),
        ("Einsum", [(4, 1, 2, 3), (9, 3, 6)], (4, 9, 2, 6), {"equation": 's: "...ab, ...bc"'}, 2 * 4 * 9 * 2 * 3 * 6),
        ("Einsum", [(5, 2)], (5,), {"equation": 's: "ab->a"'}, 10),
        ("GatherV2", [(1000, 8), (4,), ()], (4, 8), {}, 32),
        ("StridedSlice", [(1000, 8), (1,), (1,), (1,)], (8,), {}, 8),
        ("Sum", [(6, 7), (1,)], (7,), {}, 42),
        ("Tanh", [(6, 7)], (6, 7), {}, 42),
        ("ConcatV2", [(6, 7), (6, 1), ()], (6, 8), {}, 48),
        ("Reshape", [(6, 7), (1,)], (42,), {}, 0),
        ("Elu", [(0, 7)], (0, 7), {}, 0),
    ],
)
def test_operations_are_counted(
    op: str, inputs: list[tuple[int, ...]], shape: tuple[int, ...], more: dict[str, str], count: int, tmp_path: Any
) -> None:
    text = "".join(made(f"i{number}", "Relu", shape=sizes) for number, sizes in enumerate(inputs))
    text += made("it", op, *(f"i{number}" for number in range(len(inputs))), shape=shape, **more)
    assert complexity(read(tmp_path, text))["it"] == count


def test_random_weights_need_no_shapes_and_follow_the_seed(tmp_path: Any) -> None:
    bare = node("a", "Custom") + node("b", "Custom", "a:3", "^a") + node("c", "Custom", "b", "^a")
    bare += 'library { function { signature { name: "f" } node_def { name: "inner" op: "Add" input: "x" } } }\n'
    bare += node("d", "PartitionedCall", "^c", f='func { name: "f" }')
    first, again, other = (read(tmp_path, bare, weights="random", seed=seed) for seed in (1, 1, 2))
    assert edges(first) == edges(again) != edges(other)
    assert edges(first)["a", "c"] == edges(first)["c", "d"] == 0
    assert all(1 <= size <= 100 for ends, size in edges(first).items() if ends not in {("a", "c"), ("c", "d")})
    assert 1 <= first.complexity.min() <= first.complexity.max() <= 100
    assert first.devices == 50
    assert (first.speed.tolist(), first.bandwidth.tolist()) == (again.speed.tolist(), again.bandwidth.tolist())
    assert (first.bandwidth == first.bandwidth.T).all()
    with pytest.raises(InputError, match="line 5 column 1, node 'd': expected no function call"):
        read(tmp_path, bare.replace("Custom", "Const").replace("a:3", "^a").replace('"b" input', '"^b" input'))


def test_what_may_not_be_as_it_seems_is_told(tmp_path: Any) -> None:
    text = LAYER.replace('"MatMul"', '"FancyOp"') + node("z", "NoOp", _class=colocated_with("x", "zz"))
    text += made("y", "FancyOpGrad", "sum", shape=(3,)) + made("r", "ReluGrad", "sum", shape=(3,))
    told: list[str] = []
    read(tmp_path, text, batch=5, tell=told.append)
    unit = "weights are operations and bytes, but random speeds and bandwidths have no unit, so costs have none:"
    assert told == [
        "1 node of the class 'loc:@zz', which names no node of the graph",
        "2 nodes of the unknown operation 'FancyOp' counted as one operation per element",
        "1 node of the unknown operation 'FancyOpGrad' counted as one operation per element",
        f"{unit} with `--machine FILE`, costs are in seconds",
    ]
    told.clear()
    read(tmp_path, LAYER.replace("MatMul", "FancyOp"), weights="random", tell=told.append)
    (tmp_path / "machine.json").write_text('{"devices": {"speed": [1e12]}, "bandwidth": 1}')
    read(tmp_path, LAYER, batch=5, machine=tmp_path / "machine.json", placement="free", tell=told.append)
    pruned = (
        LAYER
        + node("colocated", "NoOp", "^done", _class=colocated_with("r"))
        + made("r", "ReluGrad", "sum", shape=(3,))
    )
    read(tmp_path, pruned, weights="random", fetch="colocated", tell=told.append)
    assert told == []


def test_devices_of_a_file(tmp_path: Any) -> None:
    machine = {"devices": {"speed": [5, 7], "memory": [100, None], "name": ["/gpu:0", "/cpu:0"]}, "bandwidth": 3}
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(machine))
    text = made("x", "Relu", shape=(2,), device="/gpu:0") + made("y", "Relu", "x", shape=(2,), device="/cpu:0")
    instance = read(tmp_path, text, machine=path)
    assert (instance.device_names, instance.speed.tolist(), instance.memory[0]) == (("/gpu:0", "/cpu:0"), [5, 7], 100)
    assert verify(instance, {"device": [0, 1], "order": [[0], [1]]}).cost == pytest.approx(2 / 5 + 8 / 3 + 2 / 7)
    for broken, sentence in (
        ({"devices": {"speed": [0]}, "bandwidth": 1}, "devices.speed[0]: expected a positive number, found 0"),
        ({"devices": {"speed": [1]}}, "expected a key 'bandwidth'"),
        ({"devices": {"speed": [1]}, "bandwidth": 1, "nodes": []}, "key 'nodes': expected only the keys"),
        ([], "expected an object with devices, bandwidth"),
        (
            {"devices": {"speed": [1] * 2001}, "bandwidth": 1},
            "devices.speed: expected at most 2000 devices, found 2001",
        ),
        ({"devices": [1], "bandwidth": 1}, "devices: expected an object with speed"),
    ):
        path.write_text(json.dumps(broken))
        message = refusal(read, tmp_path, text, machine=path)
        assert message.startswith(f"{path}: ")
        assert sentence in message


def test_meta_graphs_compressed_files_and_bytes_that_are_no_text(tmp_path: Any) -> None:
    odd = node("x", "Const", dtype="type: DT_STRING", value=r'tensor { tensor_shape { } string_val: "\377\000" }')
    odd += node(
        "y", "Custom", "x", blob=r's: "\200"', many=r'list { s: "\200" f: -1.5e+3 f: inf }', _output_shapes="list { }"
    )
    plain = edges(read(tmp_path, odd))
    assert plain == {("x", "y"): 16}
    wrapped = f'meta_info_def {{ tags: "train" }}\ngraph_def {{ {odd} }}\ncollection_def {{ key: "k" value {{ }} }}\n'
    assert edges(read(tmp_path, wrapped)) == plain
    assert edges(read(tmp_path, gzip.compress(odd.encode()), "graph.pbtxt.gz")) == plain


X = made("x", "Relu", shape=(2,))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "graph.pbtxt: expected at least one node"),
        (f"graph_def {{ {X} }} {X}", "expected nodes and libraries only inside graph_def, found others outside"),
        ("graph_def { }", "graph.pbtxt: expected at least one node"),
        ('node { op: "NoOp" }', "line 1 column 1: expected a node with a name"),
        ('node { name: "a" }', "line 1 column 1, node 'a': expected a node with an op"),
        (X + X, "line 2 column 1, node 'x': expected every name once"),
        (node("a", "NoOp", "b"), "node 'a': expected the name of a node as an input, found 'b'"),
        (
            node("a" * 10**6, "NoOp", "b" * 10**6),
            f"node '{'a' * 200}...': expected the name of a node as an input, found 'b",
        ),
        (node("a", "NoOp", "^b"), "node 'a': expected the name of a node as an input, found '^b'"),
        (X + node("a", "NoOp", "x:one"), "expected an input such as name, name:1 or ^name, found 'x:one'"),
        (X + node("a", "NoOp", "^x:1"), "expected an input such as name, name:1 or ^name, found '^x:1'"),
        (X + node("a", "NoOp", ""), "expected an input such as name, name:1 or ^name, found ''"),
        (X + node("a", "NoOp", "x:99999999999"), "expected an input such as"),
        (node("a", "Relu", "a"), "node 'a': expected a graph without cycles, found 'a' -> 'a'"),
        (node("a", "NoOp", "^b") + node("b", "NoOp", "^a"), "expected a graph without cycles, found 'a' -> 'b' -> 'a'"),
        (
            X + made("y", "Relu", "x:1", shape=(2,)),
            "node 'x': expected _output_shapes of all its outputs, found none of output 1",
        ),
        (node("x", "Relu", T=FLOAT) + made("y", "Relu", "x"), "node 'x': expected an attribute _output_shapes"),
        (
            made("x", "Relu", shape=(-1,)) + made("y", "Relu", "x"),
            "node 'x': expected `--batch N` for the unknown dimension",
        ),
        (
            made("x", "Relu", shape=(-2,)) + made("y", "Relu", "x"),
            "node 'x': expected dimensions of at least -1, found -2",
        ),
        (
            node("x", "Relu", _output_shapes="list { shape { unknown_rank: true } }"),
            "expected a shape of output 0, `--fetch` without it, or",
        ),
        (
            node("x", "Relu", _output_shapes=shapes((2,))) + made("y", "Relu", "x"),
            "expected a known type of output 0, or `--weights random`, found none",
        ),
        (
            made("x", "Relu", T="type: DT_NEW") + made("y", "Relu", "x"),
            "expected a known type of output 0, or `--weights random`, found 'DT_NEW'",
        ),
        (made("m", "MatMul", shape=(2, 2)), "node 'm': expected at least 1 inputs, found 0"),
        (
            X + made("m", "MatMul", "x", "x", shape=(2, 2)),
            "node 'm': expected factors with two dimensions, found 1",
        ),
        (
            made("x", "Relu", shape=(2**62, 2)),
            "node 'x': expected fewer than 2^63 elements of output 0, found 9223372036854775808",
        ),
        (
            made("x", "Relu", shape=(2**62,) * 2000),
            "expected fewer than 2^63 elements of output 0, found an integer of",
        ),
        (
            X + made("p", "MaxPool", "x", shape=(2,), ksize="list { i: [1, -2] }"),
            "expected a window (ksize) of at least 1",
        ),
        (X + made("p", "MaxPool", "x", shape=(2,)), "node 'p': expected an attribute ksize, or `--weights random`"),
        (X + made("c", "Conv2D", "x", "x", shape=(2,)), "node 'c': expected a filter with its input channels, found 1"),
        (
            X + made("e", "Einsum", "x", shape=(2,), equation='s: "a,b"'),
            "node 'e': expected an equation of 1 inputs, found 'a,b'",
        ),
        (
            X + made("e", "Einsum", "x", shape=(2,), equation='s: "ab"'),
            "node 'e': expected an equation that fits its inputs, found 'ab'",
        ),
        (
            made("x", "Relu", shape=(2**60,))
            + made("e", "Einsum", *["x"] * 20, shape=(2,), equation=f's: "{",".join("abcdefghijklmnopqrst")}"'),
            "nodes.complexity[1]: expected a finite number, at least 0, found inf",
        ),
        (
            X + made("l", "BlockLSTM", "x", shape=(2,)),
            "node 'l': expected an operation with a known cost, or `--weights random`, found the operation",
        ),
        (
            node("a", "NoOp", device="gpu:0"),
            "node 'a': expected a device such as /job:worker/task:0/device:GPU:0, found 'gpu:0'",
        ),
        (
            node("a", "NoOp", device="/job:ps"),
            f"expected a device of the machine, such as {CPU}, or `--placement free`, found '/job:ps'",
        ),
        (node("a", "NoOp", device="@b"), "expected the name of a node after '@', found the device '@b'"),
        (
            node("a", "NoOp", device="/gpu:0") + node("b", "NoOp", device="/cpu:0", _class=colocated_with("a")),
            "node 'b': expected a device that its colocation group may use, including 'a', found '/cpu:0'",
        ),
        ('node { name: "a" op: "NoOp" ', "line 1 column 1: expected the message to be closed"),
        ('node { name: "a', "expected a field such as"),
        ('node { name: "a" op: "NoOp" } }', "line 1 column 31: expected a field, found '}'"),
        ('node { name: "a" op: "NoOp" attr { key: "T" value { type: "DT" } } }', "expected a name without quotes"),
        ('node { name: "a" name: "b" }', "line 1 column 18: expected one value for name"),
        ("nodes { }", "line 1 column 1: expected one of the fields node, library"),
        ("{}", "line 1 column 1: expected a field such as"),
        (b"\x0a\x12\x0a\x01x\x12\x0bPlaceholder\xff\xfe", "expected UTF-8 text"),
    ],
)
def test_a_defect_is_one_sentence(text: str | bytes, sentence: str, tmp_path: Any) -> None:
    message = refusal(read, tmp_path, text)
    assert message.startswith(f"{tmp_path / 'graph.pbtxt'}: ")
    assert sentence in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"devices": 0}, "--devices: expected 1 to 2000, found 0"),
        ({"devices": 2001}, "--devices: expected 1 to 2000, found 2001"),
        (
            {"devices": 3, "machine": "m.json"},
            "--devices: expected no such option with --machine: its file defines the devices",
        ),
        ({"seed": -1}, "--seed: expected a whole number, at least 0, found -1"),
        ({"batch": 0}, "--batch: expected a whole number, at least 1, found 0"),
        ({"machine": "nowhere.json"}, "nowhere.json: expected a file, found nothing of that name"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], sentence: str, tmp_path: Any) -> None:
    assert sentence in refusal(read, tmp_path, X, **options)


def test_every_prefix_of_a_graph_is_a_graph_or_refused(tmp_path: Any) -> None:
    text = LAYER + loop()
    for end in range(0, len(text), 37):
        refusal(read, tmp_path, text[:end])


def test_random_graphs_come_back(tmp_path: Any) -> None:
    """Edges, sizes and groups of drawn graphs, whose nodes stand in any order, against what was drawn."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        n = int(rng.integers(2, 40))
        outputs = [tuple(int(rng.integers(1, 9)) for _ in range(rng.integers(1, 4))) for _ in range(n)]
        wanted: dict[tuple[str, str], set[int]] = {}
        lines = []
        for v in range(n):
            inputs = []
            for u in rng.integers(0, v, int(rng.integers(0, 4))).tolist() if v else []:
                port = int(rng.integers(-1, len(outputs[u])))
                wanted.setdefault((f"n{u}", f"n{v}"), set()).update({port} - {-1})
                inputs.append(f"^n{u}" if port < 0 else f"n{u}:{port}" if port or rng.random() < 0.5 else f"n{u}")
            inputs.sort(key=lambda text: text.startswith("^"))
            group = {"_class": colocated_with(f"group{v % 3}")} if v % 5 < 2 else {}
            lines.append(
                node(f"n{v}", "Custom", *inputs, T=FLOAT, _output_shapes=shapes(*((s,) for s in outputs[v])), **group)
            )
        instance = read(tmp_path, "".join(lines[v] for v in rng.permutation(n)))
        assert edges(instance) == {
            (u, v): 4 * sum(outputs[int(u[1:])][port] for port in ports) for (u, v), ports in wanted.items()
        }
        drawn = [{f"n{v}" for v in range(n) if v % 5 < 2 and v % 3 == g} for g in range(3)]
        assert sorted(map(sorted, groups(instance))) == sorted(sorted(group) for group in drawn if len(group) > 1)


def test_the_command_writes_what_can_be_solved(tmp_path: Any) -> None:
    (tmp_path / "graph.pbtxt").write_text(LAYER)
    output = tmp_path / "graph.json.gz"
    command = ["import", "graph-def", tmp_path / "graph.pbtxt", "--output", output]
    result = shardmark(*command, "--batch", 4, "--devices", 8, "--json")
    assert result.returncode == 0
    facts = json.loads(result.stdout)
    assert (facts["track"], facts["nodes"], facts["colocated_nodes"], facts["devices"]) == ("scheduling", 9, 3, 8)
    assert result.stderr.startswith("note: weights are operations and bytes")
    assert result.stderr.count("\n") == 1
    assert load(output).node_names[3] == "product"
    assert "expected `--batch N`" in refused(*command)
