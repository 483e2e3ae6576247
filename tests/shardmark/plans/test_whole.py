"""Modules that are kept whole: contraction, its cost, and plans whose stages hold whole modules."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from referee import answer, refusal, refused

import shardmark as sm
from shardmark.harness.verify import verify
from shardmark.instances import InputError
from shardmark.instances.models.devices import device
from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.roofline import Costs
from shardmark.plans.saving import load as load_plan
from shardmark.plans.targets import Pipeline
from shardmark.plans.whole import contract

WIDTH, LAYERS = 256, 4
PATTERN = "*.layers.*"


def layered(path):
    """An ONNX model: `LAYERS` layers of eight products and a residual sum, named as by PyTorch's older exporter."""
    weights = np.eye(WIDTH, dtype=np.float32)
    nodes, stored, value = [], [], "x"
    for layer in range(LAYERS):
        scope, own = f"/model/layers.{layer}", f"t{layer}."
        for number, name in enumerate(["up"] * 4 + ["down"] * 4):
            stored.append(onnx.numpy_helper.from_array(weights, f"w{layer}.{number}"))
            reads = [f"{own}{number - 1}" if number else value, stored[-1].name]
            nodes.append(helper.make_node("MatMul", reads, [f"{own}{number}"], name=f"{scope}/{name}/MatMul_{number}"))
        nodes.append(helper.make_node("Add", [value, f"{own}7"], [own], name=f"{scope}/Add"))
        value = own
    nodes.append(helper.make_node("Softmax", [value], ["y"], name="/Softmax"))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "layered", values[:1], values[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return layered(tmp_path_factory.mktemp("whole") / "layered.onnx")


@pytest.fixture(scope="module")
def plan(file):
    return sm.plan(file, devices=3, whole=PATTERN, timeout=60)


def stages_of_modules(plan, depth):
    """For every module of this depth, the stages with operators of it."""
    found = {}
    for operator, stage in zip(plan.model.operators, plan.layout.part_of, strict=True):
        if len(operator.module) >= depth:
            found.setdefault(operator.module[:depth], set()).add(stage)
    return found


def test_the_stages_keep_modules_whole_and_another_split_is_better(file, plan):
    assert plan.price.modules == tuple(f"model.layers.{layer}" for layer in range(LAYERS))
    assert all(len(stages) == 1 for stages in stages_of_modules(plan, 2).values())
    free = sm.plan(file, devices=3, timeout=60)
    assert any(len(stages) > 1 for stages in stages_of_modules(free, 2).values())
    assert any(part.cut_modules for part in free.parts)
    assert not any(part.cut_modules for part in plan.parts)
    assert plan.price.lower_bound * (1 - 1e-9) <= plan.price.cost == pytest.approx(free.cost)
    assert plan.price.cost < plan.cost


def test_the_plan_is_the_best_split_of_whole_modules(plan):
    place = {path: index for index, path in enumerate(plan.price.modules)}
    costs = []
    for stages in product(range(3), repeat=LAYERS + 1):  # of the layers, and of the operator after them
        module_of = [place.get(".".join(operator.module[:2]), LAYERS) for operator in plan.model.operators]
        verdict = verify(plan.instance, [stages[module] for module in module_of])
        costs += [verdict.cost] if verdict.feasible else []
    assert plan.cost == pytest.approx(min(costs))
    assert plan.lower_bound <= min(costs) * (1 + 1e-12)
    assert verify(plan.instance, plan.solution).cost == plan.cost


def test_the_plan_says_what_whole_modules_cost(plan, tmp_path):
    found = load_plan(plan.save(tmp_path).parent)
    price = {"modules": list(plan.price.modules), "cost_us": plan.price.cost, "lower_bound_us": plan.price.lower_bound}
    assert found["whole"] == price
    assert found["options"]["whole"] == [PATTERN]
    assert [part["modules"] for part in found["parts"]] == [list(part.modules) for part in plan.parts]
    percent = f"{100 * (plan.cost / plan.price.cost - 1):.2g} %"
    assert f"whole modules: 4 kept whole: {percent} above the best split found without this" in str(plan)
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "4 kept whole" in page
    assert "model.layers.0" in page
    assert "with these modules whole" in plan.gap_text
    assert "no split with these modules whole has a bottleneck below the dashed line" in page


def test_stages_of_whole_modules_compute_what_the_model_does(file, tmp_path):
    answer("plan", file, "-n", 2, "--whole", PATTERN, "--timeout", 60, "-o", tmp_path, "--export", "stages")
    assert answer("plan", "verify", tmp_path)


def test_whole_modules_that_cost_nothing(file):
    plan = sm.plan(file, devices=1, whole=[PATTERN], timeout=60)
    assert plan.price.in_words(plan.cost) == "no better split was found without this"
    assert plan.gap == 0


def test_of_nested_modules_the_outermost_one_is_kept_whole(file):
    plan = sm.plan(file, devices=2, whole=["model.layers.1.up", "*.layers.1*", "model.layers.2.down"], timeout=60)
    assert plan.price.modules == ("model.layers.1", "model.layers.2.down")


def test_a_pattern_that_begins_with_any_module_matches_outermost_ones():
    assert contract(chain("layers.0", "layers.0", "layers.1"), ["*.layers.*"]).modules == ("layers.0", "layers.1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--whole", "*.layer.*"),
            ["'*.layer.*', which matches no module, did you mean 'model.layers", "'model.layers.0'"],
        ),
        (("--whole", "model.layers", "--whole", PATTERN), ["found 'model.layers', which matches no module"]),
        (("--whole", PATTERN, "--split", "split.json"), ["expected a number of equal devices and no split"]),
    ],
)
def test_bad_patterns_are_refused_in_one_sentence(file, options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "split.json").write_text("{}")
    sentence = refused("plan", file, "-n", 2, *options)
    assert all(part in sentence for part in words)


def test_whole_modules_need_equal_devices(file):
    assert "expected a number of equal devices" in refused("plan", file, "--mesh", "2x2", "--whole", PATTERN)
    assert "expected patterns such as" in refusal(sm.plan, file, devices=2, whole=7)


def test_a_model_without_names_of_modules_says_so():
    with pytest.raises(InputError, match="the model has no names of modules in its file"):
        contract(chain("", ""), ["*"])


def chain(*modules, extra=(), backward=()):
    """A chain of operators with these modules, levels between slashes, and extra edges to later operators."""
    model = Model()
    tensors = [model.tensor(f"t{index}", (4,), "float32") for index in range(len(modules) + 1)]
    for index, module in enumerate(modules):
        sources = [index, *(tail + 1 for tail, head in extra if head == index)]
        reads = [Access(tensors[source], ("d0",)) for source in sources]
        levels = tuple(filter(None, module.split("/")))
        writes = [Access(tensors[index + 1], ("d0",))]
        model.operator(f"op{index}", "Relu", reads, writes, {"d0": 4}, module=levels, backward=index in backward)
    return model


def test_modules_that_data_leave_and_enter_again_cannot_be_whole():
    sentence = refusal(contract, chain("m/0", "", "m/0"), ["m.0"])
    assert "expected modules that data enter before they leave, found a cycle through" in sentence
    assert "'op0' in m.0 -> 'op1'" in sentence
    assert "'op1' -> 'op2' in m.0" in sentence
    assert "'op1' in m.1 -> 'op2' in m.0" in refusal(contract, chain("m/0", "m/1", "m/0"), ["m.*"])
    assert contract(chain("m/0", "m/1", "m/0"), ["m"]).modules == ("m",)


def test_the_passes_of_a_training_step_are_whole_apart():
    contraction = contract(chain("m/0", "m/1", "m/1", "m/0", backward=(2, 3)), ["m.*"])
    assert [operator.name for operator in contraction.model.operators] == [
        "m.0",
        "m.1",
        "m.1 (backward)",
        "m.0 (backward)",
    ]


@st.composite
def cases(draw):
    """A random model whose modules are runs of a chain with extra edges, its times, and a split of its modules."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    modules = [f"m/{module}" for module, length in enumerate(lengths) for _ in range(length)]
    pairs = [(u, v) for v in range(len(modules)) for u in range(v - 1)]
    extra = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    times = draw(st.lists(st.floats(0, 1e-3), min_size=len(modules), max_size=len(modules)))
    split = sorted(draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths))))
    return chain(*modules, extra=extra), np.array(times), split


@given(cases())
@settings(deadline=None)
def test_a_split_of_modules_costs_what_the_split_of_their_operators_does(case):
    model, times, split = case
    target = Pipeline(device("h100"), 3)
    contraction = contract(model, ["m.*"])
    sums = np.array([times[list(group)].sum() for group in contraction.groups])
    kept, task = target.task(contraction.model, Costs(sums, "")), target.task(model, Costs(times, ""))
    if kept.instance.stages <= max(split):
        return
    operators = contraction.expand(split)
    assert [split[int(operator.module[-1])] for operator in model.operators] == operators
    costs = [verify(part.instance, part.tidy(stages)).cost for part, stages in ((kept, split), (task, operators))]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_jax_scopes_are_kept_whole(tmp_path):
    jax = pytest.importorskip("jax")

    def forward(parameters, x):
        for layer in range(3):
            with jax.named_scope(f"layers_{layer}"):
                x = x + jax.numpy.tanh(x @ parameters[f"w{layer}"]) @ parameters[f"v{layer}"]
        return x.sum()

    shape = jax.ShapeDtypeStruct((32, 32), "float32")
    parameters = {f"{name}{layer}": shape for name in "wv" for layer in range(3)}
    path = tmp_path / "step.mlir"
    path.write_text(jax.jit(forward).lower(parameters, shape).as_text(debug_info=True))
    plan = sm.plan(path, devices=2, whole="layers_*", timeout=60)
    assert plan.price.modules == ("layers_0", "layers_1", "layers_2")
    assert all(len(stages) == 1 for stages in stages_of_modules(plan, 1).values())
    assert json.dumps([part.modules for part in plan.parts]).count("layers_") == 3
