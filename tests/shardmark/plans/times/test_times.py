"""Measured times become the costs of a plan: tables, traces of PyTorch's profiler, summaries of Nsight Systems."""

from __future__ import annotations

import csv
import gzip
import json
import math
import time
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import onnx.parser
import pytest
from referee import answer, refusal, shardmark

import shardmark as sm
from shardmark.instances.models.devices import device
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.reader import read_model
from shardmark.instances.models.roofline import roofline
from shardmark.plans.joining import Joined
from shardmark.plans.times.pricing import measured_costs
from shardmark.plans.times.template import write_template

pytestmark = pytest.mark.usefixtures("stablehlo_in_process")

ROOT = Path(__file__).parents[4]
DATA = ROOT / "tests" / "data" / "operator_times"  # written by examples/operator_times.py --small
NETS = ("transformer", "convolutions")
STEP = ROOT / "tests" / "data" / "stablehlo" / "transformer.mlir.gz"
GPU = device("h100")


def joined(model, *, fused=False, passes=False):
    return Joined.of(model, fused=fused, passes=passes)


def costs_of(path, model, **ways):
    return measured_costs(path, model, joined(model, **ways), GPU)


@pytest.fixture(scope="module")
def convolutions():
    return read_model(DATA / "convolutions.onnx")


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "times.csv"
    write_template(path, DATA / "convolutions.onnx", device="h100", dims={}, branches={}, fuse=None, tell=print)
    return path


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def write_rows(path, rows):
    with path.open("w", newline="") as stream:
        out = csv.DictWriter(stream, rows[0].keys())
        out.writeheader()
        out.writerows(rows)


@pytest.mark.parametrize(("name", "fused"), [("transformer", False), ("convolutions", False), ("step", True)])
def test_a_template_is_read_back_unchanged_as_the_roofline(name, fused, tmp_path):
    source = STEP if name == "step" else DATA / f"{name}.onnx"
    rows = write_template(tmp_path / "t.csv", source, device="h100", dims={}, branches={}, fuse=None, tell=print)
    model = read_model(source)
    costs = costs_of(tmp_path / "t.csv", model, fused=fused)
    chains = joined(model, fused=fused).chains
    expected = roofline(chains, GPU).seconds
    assert costs.seconds.tolist() == expected.tolist()
    assert f"{rows} of {rows} operators without a time cost the roofline of h100 times 1 (products)" in costs.origin
    written = {row["operator"]: 1e-6 * float(row["roofline_us"]) for row in rows_of(tmp_path / "t.csv")}
    estimates = dict(zip([operator.name for operator in chains.operators], expected, strict=True))
    assert written == pytest.approx({name: estimates[name] for name in written}, rel=1e-5)
    assert all(estimates[name] == 0 for name in estimates.keys() - written)


def test_a_template_has_the_branch_that_is_named(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[8,16] x, bool p) => (float[8,16] y) {
      [pick] y = If (p) <then_branch = t () => (float[8,16] a) { a = Exp(x) },
        else_branch = e () => (float[8,16] c) { c = Neg(x) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    answer("plan", tmp_path / "model.onnx", "--branch", "pick=else", "--times-template", tmp_path / "t.csv")
    assert [row["kind"] for row in rows_of(tmp_path / "t.csv")] == ["Neg"]


def test_stage_times_are_sums_of_the_table(template):
    rows = rows_of(template)
    times = dict(zip([row["operator"] for row in rows], range(100, 1000, 37), strict=False))
    write_rows(template, [row | {"time_us": times[row["operator"]]} for row in rows])
    plan = sm.plan(DATA / "convolutions.onnx", devices=3, times=template, timeout=20)
    for number, part in enumerate(plan.parts):
        mine = [times.get(name, 0) for name, stage in plan.assignment.items() if stage == number]
        assert part.compute_us == pytest.approx(sum(mine), rel=1e-12)
    assert f"every operator has a time ({len(rows)})" in plan.costs.origin


def test_stage_times_of_a_training_step_are_sums_of_the_table(tmp_path):
    """Chains have their time under one name, which stands for all their members."""
    write_template(tmp_path / "t.csv", STEP, device="h100", dims={}, branches={}, fuse=None, tell=print)
    rows = rows_of(tmp_path / "t.csv")
    times = {row["operator"]: 20 + 13 * number % 31 for number, row in enumerate(rows)}
    write_rows(tmp_path / "t.csv", [row | {"time_us": times[row["operator"]]} for row in rows])
    plan = sm.plan(STEP, devices=2, times=tmp_path / "t.csv", timeout=20)
    assert len(plan.parts) == 2
    for number, part in enumerate(plan.parts):
        mine = [times.get(name, 0) for name, stage in plan.assignment.items() if stage == number]
        assert part.compute_us == pytest.approx(sum(mine), rel=1e-12)
    assert {row["pass"] for row in rows} == {"forward", "backward"}


def test_operators_without_a_time_are_counted_named_and_scaled(template, convolutions):
    """Products are scaled like the measured products, everything else like the rest."""
    rows = rows_of(template)
    estimate = dict(
        zip([o.name for o in convolutions.operators], roofline(convolutions, GPU).seconds.tolist(), strict=True)
    )
    times = {
        row["operator"]: (7e6 if row["kind"] in ("Conv", "Gemm") else 2e6) * estimate[row["operator"]] for row in rows
    }
    lacking = [next(row["operator"] for row in rows if row["kind"] == kind) for kind in ("Conv", "Relu")]
    kept = [row | {"time_us": times[row["operator"]]} for row in rows if row["operator"] not in lacking]
    write_rows(template, kept)
    costs = costs_of(template, convolutions)
    names = [operator.name for operator in convolutions.operators]
    assert costs.seconds == pytest.approx([1e-6 * times.get(name, 0) for name in names])
    words = f"2 of {len(rows)} operators without a time cost the roofline of h100 times 7 (products) and 2 (others): "
    assert words + ", ".join(map(repr, lacking)) in costs.origin


def test_without_a_measured_product_products_are_scaled_like_the_rest(tmp_path, convolutions):
    relu = next(index for index, operator in enumerate(convolutions.operators) if operator.kind == "Relu")
    estimate = roofline(convolutions, GPU).seconds
    table = {"unit": "ms", "rows": [{"operator": convolutions.operators[relu].name, "time": 3e3 * estimate[relu]}]}
    (tmp_path / "t.json").write_text(json.dumps(table))
    assert costs_of(tmp_path / "t.json", convolutions).seconds == pytest.approx(3 * estimate)


def test_operators_without_a_time_are_not_scaled_by_times_of_zero(tmp_path, convolutions):
    (tmp_path / "t.csv").write_text(f"operator,time_us\n{convolutions.operators[0].name},0\n")
    seconds = costs_of(tmp_path / "t.csv", convolutions).seconds
    assert seconds[0] == 0
    assert seconds[1:].tolist() == roofline(convolutions, GPU).seconds[1:].tolist()


def test_rows_by_kind_and_by_module(tmp_path):
    """A module's time is that of all its operators; a kind's that of each."""
    model = read_model(DATA / "transformer.onnx")
    kinds = "kind,shapes,module,time_us\nSoftmax,2x2x8x8,,40\n,,layers.1.up,500\n"
    (tmp_path / "t.csv").write_text(kinds)
    seconds = costs_of(tmp_path / "t.csv", model).seconds
    of = {operator.name: time for operator, time in zip(model.operators, seconds, strict=True)}
    assert [time for name, time in of.items() if "Softmax" in name] == pytest.approx([40e-6] * 2)
    assert sum(time for name, time in of.items() if "/layers.1/up/" in name) == pytest.approx(500e-6)
    assert sum("/layers.1/up/" in name for name in of) > 1


def test_passes_of_a_module_have_times_of_their_own(tmp_path):
    model = read_model(STEP)
    (tmp_path / "t.csv").write_text("module,pass,time_ms\nlayer0,forward,3\nlayer0,backward,5\n")
    chains = joined(model, fused=True).chains
    seconds = costs_of(tmp_path / "t.csv", model, fused=True).seconds
    for late, expected in ((False, 3e-3), (True, 5e-3)):
        mine = [
            i
            for i, operator in enumerate(chains.operators)
            if "(layer0)" in operator.name and operator.backward == late
        ]
        assert sum(seconds[mine]) == pytest.approx(expected)


def medians(name, trace, event):
    """The median time in seconds of the events of a name in a trace of the small networks."""
    events = json.loads(gzip.decompress((DATA / f"{name}.{trace}.json.gz").read_bytes()))["traceEvents"]
    return 1e-6 * median(found["dur"] for found in events if found["name"] == event and found["ph"] == "X")


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("file", ["trace.json.gz", "modules.trace.json.gz", "averages.txt"])
def test_every_operator_has_a_time_in_the_traces_of_pytorch(name, file):
    model = read_model(DATA / f"{name}.onnx")
    costs = costs_of(DATA / f"{name}.{file}", model)
    assert "every operator has a time" in costs.origin
    free = {
        operator.kind
        for operator, seconds in zip(model.operators, costs.seconds, strict=True)
        if not seconds and not operator.view
    }
    assert free == ({"Add"} if name == "transformer" and "modules" not in file else set())  # with its product


def test_a_trace_has_the_times_of_its_events(convolutions):
    seconds = dict(
        zip(
            [operator.name for operator in convolutions.operators],
            costs_of(DATA / "convolutions.trace.json.gz", convolutions).seconds,
            strict=True,
        )
    )
    (gemm,) = (time for name, time in seconds.items() if "Gemm" in name)
    assert gemm == pytest.approx(medians("convolutions", "trace", "aten::linear"))
    (pool,) = (time for name, time in seconds.items() if "GlobalAveragePool" in name)
    assert pool == pytest.approx(medians("convolutions", "trace", "aten::adaptive_avg_pool2d"))


def test_ranges_are_modules():
    """A range's time is that of its module, whatever happens inside."""
    model = read_model(DATA / "transformer.onnx")
    seconds = costs_of(DATA / "transformer.modules.trace.json.gz", model).seconds
    for module, path in (("layers.0.up", "/layers.0/up/"), ("layers.1.norm2", "/layers.1/norm2/"), ("head", "/head/")):
        mine = [index for index, operator in enumerate(model.operators) if operator.name.startswith(path)]
        assert sum(seconds[mine]) == pytest.approx(medians("transformer", "modules.trace", module)), module


def test_a_plan_of_a_trace_sums_its_times():
    plan = sm.plan(DATA / "transformer.onnx", devices=2, times=DATA / "transformer.trace.json.gz", timeout=20)
    times = dict(zip([o.name for o in plan.model.operators], 1e6 * plan.costs.seconds, strict=True))
    for number, part in enumerate(plan.parts):
        mine = [times[name] for name, stage in plan.assignment.items() if stage == number]
        assert part.compute_us == pytest.approx(math.fsum(mine), rel=1e-12)


def test_kernels_count_for_the_operator_that_launched_them(tmp_path, convolutions):
    """On a GPU: the operator on the CPU is done before its kernels, which name it by its external id."""
    first = convolutions.operators[0]
    shapes = [list(convolutions.tensors[access.tensor].shape) for access in first.reads]

    def event(cat, name, ts, dur, identity, **more):
        args = {"External id": identity, **more}
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": cat, "ts": ts, "dur": dur, "args": args}

    events = [
        event("cpu_op", "aten::conv2d", 10, 9, 1, **{"Input Dims": [*shapes, [], []]}),
        event("cpu_op", "aten::cudnn_convolution", 12, 3, 2, **{"Input Dims": [*shapes[:2], [], []]}),
        event("kernel", "implicit_convolve_sgemm", 30, 200, 2),
        event("kernel", "add_bias", 230, 40, 1),
        event("kernel", "unrelated", 400, 1000, 7),
        event("kernel", "of_no_operator", 1400, 1000, None),
        event("user_annotation", convolutions.operators[1].name, 50, 9, None),
    ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    costs = costs_of(tmp_path / "t.json", convolutions)
    assert "times of the GPU" in costs.origin
    assert costs.seconds[0] == pytest.approx(240e-6)
    assert costs.seconds[1] == 0


def test_ranges_within_ranges_sum_their_kernels_in_linear_time(tmp_path, convolutions):
    count, name = 60_000, convolutions.operators[0].name
    ranges = [(name if number == 0 else "range", number, 2 * (count - number)) for number in range(count)]
    events = [
        {"ph": "X", "cat": "user_annotation", "name": n, "ts": begin, "dur": length} for n, begin, length in ranges
    ]
    events[-1]["args"] = {"External id": 1}
    events.append({"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 40, "args": {"External id": 1}})
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    began = time.process_time()
    assert costs_of(tmp_path / "t.json", convolutions).seconds[0] == pytest.approx(40e-6)
    assert time.process_time() - began < 10


def test_biases_are_found_in_linear_time(tmp_path):
    model, count = Model("biases"), 6000
    row = (None, None)
    x, bias = model.tensor("x", (2, 4), "float32"), model.tensor("b", (4,), "float32", parameter=True)
    for number in range(count):
        weight = model.tensor(f"w{number}", (4, 4), "float32", parameter=True)
        product, total = (model.tensor(f"{kind}{number}", (2, 4), "float32") for kind in "pt")
        reads, written = [Access(x, row), Access(weight, row)], [Access(product, row)]
        model.operator(f"p{number}", "MatMul", reads, written, {}, multiply_adds=32)
        model.operator(f"t{number}", "Add", [Access(product, row), Access(bias, (None,))], [Access(total, row)], {})
        x = total
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "ts": 1, "dur": 7}
    event["args"] = {"Input Dims": [[4], [2, 4], [4, 4]]}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [event]}))
    began = time.process_time()
    assert costs_of(tmp_path / "t.json", model).seconds.sum() == pytest.approx(count * 7e-6)
    assert time.process_time() - began < 5


def test_of_averages_within_each_other_the_outermost_counts(tmp_path):
    """A range of a module takes all the time of the modules in it."""
    model = read_model(DATA / "transformer.onnx")
    inner = NVTX.splitlines()[3].replace("layers.0.up", "layers.0").replace("9000000", "12000000")
    (tmp_path / "nvtx.csv").write_text(f"{NVTX}{inner}\n")
    seconds = costs_of(tmp_path / "nvtx.csv", model).seconds
    layer = [index for index, operator in enumerate(model.operators) if operator.module[:1] == ("layers.0",)]
    assert sum(seconds[layer]) == pytest.approx(4e-3)


NVTX = """Processing [run.sqlite] with [nvtx_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
60.0,9000000,3,3000000.0,3000000.0,2900000,3100000,1.0,PushPop,:layers.0.up
30.0,80000,2,40000.0,40000.0,1,1,1.0,PushPop,"aten::softmax, seq = 7, op_id = 9, sizes = [[2, 2, 8, 8], [], []]"
10.0,70000,1,70000.0,70000.0,1,1,1.0,PushPop,cub:other
"""
KERNELS = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
90.0,9000000,40,1.0,1.0,1,1,1.0,ampere_sgemm_128x64_tn
10.0,2000000,90,1.0,1.0,1,1,1.0,"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"
"""


def test_ranges_of_nsight_systems(tmp_path):
    model = read_model(DATA / "transformer.onnx")
    (tmp_path / "nvtx.csv").write_text(NVTX)
    seconds = costs_of(tmp_path / "nvtx.csv", model).seconds
    (tmp_path / "windows.csv").write_bytes(f"{NVTX}\n{NVTX}".replace("\n", "\r\n").encode())
    assert costs_of(tmp_path / "windows.csv", model).seconds.tolist() == seconds.tolist()
    up = [index for index, operator in enumerate(model.operators) if operator.name.startswith("/layers.0/up/")]
    assert sum(seconds[up]) == pytest.approx(3e-3)
    assert [time for o, time in zip(model.operators, seconds, strict=True) if o.kind == "Softmax"] == [40e-6] * 2


def test_kernels_of_nsight_systems_scale_the_roofline(tmp_path):
    """Their totals are those of products, and of everything else."""
    model = read_model(DATA / "transformer.onnx")
    (tmp_path / "kernels.csv").write_text(KERNELS)
    costs = costs_of(tmp_path / "kernels.csv", model)
    products = np.array([operator.multiply_adds > 0 for operator in model.operators])
    assert costs.seconds[products].sum() == pytest.approx(9e-3)
    assert costs.seconds[~products].sum() == pytest.approx(2e-3)
    assert f"{sum(not o.view for o in model.operators)} of " in costs.origin


def test_the_command_writes_a_template_and_reads_it(tmp_path):
    path = tmp_path / "t.csv"
    found = answer("plan", DATA / "convolutions.onnx", "--times-template", path)
    assert found == {"times_template": str(path), "rows": len(rows_of(path))}
    plan = answer("plan", DATA / "convolutions.onnx", "--devices", 2, "--times", path, "--timeout", 10)
    assert plan["costs"].startswith(
        "t.csv (table); 10 of 10 operators without a time cost the roofline of h100 times 1"
    )


AVERAGES = (DATA / "convolutions.averages.txt").read_text()
BAD = {
    "operator,time_us\n/1/Rleu,3\n": "line 2: expected an operator of the model, found '/1/Rleu', did you mean '/1/R",
    "operator,time_us\n/1/Relu,-3\n": "line 2: expected a time of at least 0, found -3",
    "operator,time_us\n/1/Relu,nan\n": "line 2: expected a time of at least 0, found nan",
    "operator,time_us\n/1/Relu,1e999\n": "line 2: expected a time of at least 0, found inf",
    "operator,time_us\n/1/Relu,fast\n": "line 2, time_us: expected a number, found 'fast'",
    "operator,time_us\n/1/Relu,3\n/1/Relu,4\n": "line 3: expected one time for '/1/Relu', found another on line 2",
    "operator,module,time_us\n/1/Relu,,3\n,1,4\n": "line 3: expected one time for '/1/Relu', found another on line 2",
    "operator,time\n/1/Relu,3\n": "line 1: expected one column with the unit of times in its name: time_ns, time_us",
    "operator,time_h\n/1/Relu,3\n": "time_ns, time_us, time_ms, time_s, found time_h",
    "operator\n/1/Relu\n": "time_ns, time_us, time_ms, time_s, found none",
    "operator,time_us,time_ms\n/1/Relu,3,4\n": "found time_us, time_ms",
    "name,time_us\n/1/Relu,3\n": "line 1: expected a header with columns of operator, module, kind, shapes",
    "operator,time_us\n/1/Relu,3,4\n": "line 2: expected 2 columns, found 3",
    'operator,time_us\n"/1/Relu,3\n': "expected a row of CSV",
    "module,time_us\n77,3\n": "line 2: expected a module of the model, found '77'",
    "module,pass,time_us\n1,sideways,3\n": "line 2, pass: expected forward or backward, found 'sideways'",
    "module,pass,time_us\n1,backward,3\n": "line 2: expected operators of the backward pass in '1', found none",
    "kind,shapes,time_us\nRelu,9x9,3\n": "that an operator of the model has, found 'Relu 9x9'",
    "kind,shapes,time_us\nRelu,axb,3\n": "line 2, shapes: expected shapes such as '8x512 512', found 'axb'",
    f"kind,shapes,time_us\nRelu,{'9' * 5000},3\n": "line 2, shapes: expected shapes such as '8x512 512', found '999",
    "module,kind,time_us\n1,Relu,3\n": "or a kind with shapes, found module and kind",
    "": "line 1: expected a header with columns of",
    '{"traceEvents": [{"ph": "X", ': "line 1 column 30: expected JSON",
    '{"traceEvents": 3}': "traceEvents: expected a list of events",
    '{"traceEvents": []}': "traceEvents: expected operators or ranges",
    '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": -1}]}': "ts and dur",
    '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1}]}': "(record_shapes=True)",
    '{"traceEvents": [{"ph": "X", "cat": []}]}': "traceEvents: expected operators or ranges",
    '{"unit": "min", "rows": []}': "unit: expected one of ns, us, ms, s, found 'min'",
    '{"rows": []}': "expected an object with unit and rows, found",
    '{"unit": "us", "rows": [{"operator": "/1/Relu", "time": true}]}': "rows[0]: expected a time of at least 0",
    '{"unit": "us", "rows": [{"operator": "/1/Relu", "took": 3}]}': "rows[0]: expected an object with keys of",
    '{"unit": "us", "rows": [{"operator": 7, "time": 3}]}': "rows[0], operator: expected a text, found 7",
    NVTX.replace("9000000", "-9"): "line 4: expected numbers in Total Time (ns) and Instances",
    AVERAGES.replace("us", "xs"): "expected CPU time avg, such as 12.3us, found",
    AVERAGES.replace("us", ".3us"): "expected CPU time avg, such as 12.3us, found",
    AVERAGES.replace("[]]", "[" * 9 + "]"): "line 4: expected lists of sizes, found",
    NVTX.replace("[[2, 2, 8, 8], [], []]", "[" * 99_999 + "]").replace("layers", "blocks"): "(record_shapes=True)",
    "\n".join(AVERAGES.splitlines()[:9]): "found a table cut short",
}


@pytest.mark.parametrize(("content", "expected"), BAD.items())
def test_bad_times_are_refused_in_a_sentence(content, expected, tmp_path):
    path = tmp_path / "times"
    path.write_text(content)
    told = refusal(sm.plan, DATA / "convolutions.onnx", devices=2, times=path, timeout=5)
    assert told.startswith(str(path))
    assert expected in told
    assert "\n" not in told


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shardmark.plans.times.reader.LARGEST", 1 << 20)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(b" " * (1 << 21)))
    told = refusal(sm.plan, DATA / "convolutions.onnx", devices=2, times=tmp_path / "t.json.gz", timeout=5)
    assert "expected at most 1 MiB, compressed or not: profile fewer runs" in told


def test_times_are_for_whole_operators(template):
    model = DATA / "convolutions.onnx"
    for options in ({"mesh": "2x2"}, {"devices": 2, "profile": True}):
        assert "times: expected no profile and no mesh" in refusal(sm.plan, model, times=template, **options)
    assert "nowhere" in refusal(sm.plan, model, devices=2, times="nowhere")
    assert "expected the path of a file" in refusal(sm.plan, model, devices=2, times=3)
    assert "--times-template" in shardmark("plan", "verify", "x", "--times-template", "t.csv").stderr
