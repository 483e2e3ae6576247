"""Problems of track intraop made from models: costs and memory against a slow oracle, plans, and bad input."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from effort import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import LIGHT
from read_models import read_stablehlo

from shardmark.harness.verify import verify
from shardmark.instances.errors import InputError
from shardmark.instances.generate.networks import architectures
from shardmark.instances.models.as_intraop import IMPOSSIBLE, as_intraop
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import BITS, Access, Model
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.instances.models.roofline import computed_in, roofline

DEVICE = Device(
    name="test",
    peak={"float32": 2e12},
    bandwidth=5e11,
    memory=1e9,
    launch=1e-6,
    link_bandwidth=4e10,
    link_latency=3e-6,
    source="none",
)
TRANSFORMER = {"layers": 2, "batch": 8, "sequence": 64, "width": 128, "heads": 4, "head_groups": 1, "vocabulary": 512}


class Writer:
    """A model written down in few words: letters are loops, and each loop has one size."""

    def __init__(self, **sizes: int) -> None:
        self.model, self.sizes, self.dims = Model("written"), sizes, {}

    def source(self, dims, *, parameter=False):
        name = f"t{len(self.model.tensors)}"
        tensor = self.model.tensor(name, [self.sizes[d] for d in dims], "float32", parameter=parameter)
        self.dims[tensor] = dims
        return tensor

    def operator(self, reads, out, *, product=False, used=None, **properties):
        reads = [read if isinstance(read, tuple) else (read, self.dims[read]) for read in reads]
        written = self.source(out)
        loops = {d: self.sizes[d] for d in "".join(["".join(dims) for _, dims in reads]) + out if d != "-"}
        points = math.prod(loops.values())
        accesses = [Access(tensor, tuple(None if d == "-" else d for d in dims)) for tensor, dims in reads]
        if used is not None:
            accesses[0] = dataclasses.replace(accesses[0], numbers=used)
        self.model.operator(
            f"op{len(self.model.operators)}",
            "product" if product else "cheap",
            accesses,
            [Access(written, tuple(out))],
            loops,
            multiply_adds=points if product else 0,
            flops=2 * points if product else points,
            **properties,
        )
        return written

    def product(self, a, b, out, **properties):
        return self.operator([a, b], out, product=True, **properties)


def chain():
    """A product, a bias that is broadcast, an elementwise function, and a second product."""
    write = Writer(m=16, k=8, n=32, p=8)
    x = write.source("mk")
    w, bias, v = (write.source(dims, parameter=True) for dims in ("kn", "n", "np"))
    y = write.product(x, w, "mn")
    wide = write.operator([bias], "mn")
    z = write.operator([y, wide], "mn")
    write.model.outputs.append(write.product(z, v, "mp"))
    return write.model


def splits(problem, choices):
    """The loops that each operator splits, by index."""
    loops = problem.loops(problem.solution(choices))
    return [loops[operator.name] for operator in problem.model.operators]


def parts(problem, split):
    return math.prod(size for size, what in zip(problem.mesh.sizes, split, strict=True) if what not in (None, -1))


def layout(model, access, operator, split):
    """Dimension that each axis splits if the operator splits these loops."""
    shape = model.tensors[access.tensor].shape
    known = [
        d if d is not None and s % operator.loops[d] == 0 else None for d, s in zip(access.dims, shape, strict=True)
    ]
    return tuple(known.index(loop) if loop is not None and loop in known else -1 for loop in split)


def oracle_cost(problem, choices):
    """Cost of a plan, summed operator by operator and read by read."""
    model, mesh = problem.model, problem.mesh
    latency, link = DEVICE.link_latency * 1e9, DEVICE.link_bandwidth / 1e9
    placed = problem.layouts(problem.solution(choices))
    group = {index: i for i, group in enumerate(problem.groups) for index in group.splits}
    total, arrived = 0.0, set()

    def conversion(tensor, target):
        local = model.tensors[tensor].bytes / parts(problem, placed[tensor])
        lost = [(k, b) for k, a, b in zip(mesh.sizes, placed[tensor], target, strict=True) if a not in (-1, b)]
        return (latency if lost else 0) + sum(local * (k - 1) / (k if b >= 0 else 1) / link for k, b in lost)

    for index, split in enumerate(splits(problem, choices)):
        operator = model.operators[index]
        moved = oracle_read(problem, operator, split)
        for tensor, target in {(a.tensor, layout(model, a, operator, split)) for a in operator.reads}:
            if (group[index], tensor, target) not in arrived:
                total += conversion(tensor, target)
            arrived.add((group[index], tensor, target))
        for access in operator.writes:
            target = layout(model, access, operator, split)
            assert placed[access.tensor] == target
            local = model.tensors[access.tensor].bytes / parts(problem, target)
            moved += local
            for k, loop, dim in zip(mesh.sizes, split, target, strict=True):
                if loop is not None and dim < 0 and not operator.view:
                    total += latency + 2 * (k - 1) / k * local / link
        if not operator.view:
            arithmetic = operator.flops / parts(problem, split) / DEVICE.rate(computed_in(model, index))
            total += 1e9 * (max(arithmetic, moved / DEVICE.bandwidth) + DEVICE.launch)
    return total + sum(conversion(new, placed[old]) for old, new in model.updates.items())


def oracle_read(problem, operator, split):
    """Bytes that each device reads: of a tensor that is used in part, its part of what is used."""
    total = 0.0
    for tensor in {access.tensor for access in operator.reads}:
        own, read, held = problem.model.tensors[tensor], 0.0, []
        for access in operator.reads:
            if access.tensor == tensor:
                held.append(own.bytes / parts(problem, layout(problem.model, access, operator, split)))
                read += (
                    held[-1] if access.numbers is None else BITS[own.dtype] / 8 * access.numbers / parts(problem, split)
                )
        total += min(read, max(held))
    return total


def oracle_peak(problem, choices):
    """Most bytes in use by the tensors of a plan, if no buffer is used twice."""
    model = problem.model
    placed = problem.layouts(problem.solution(choices))
    steps = len(model.operators)
    use = [0] * steps
    for tensor, readers in enumerate(model.readers()):
        if tensor not in placed:
            continue
        own = model.tensors[tensor]
        begin = own.producer or 0
        end = max([*readers, begin]) + 1
        if own.parameter or tensor in model.outputs:
            end = steps
        for step in range(begin, end):
            use[step] += math.ceil(own.bytes / parts(problem, placed[tensor]))
    return max(use)


@st.composite
def written_models(draw):
    """Random models of products, elementwise operators, reductions and broadcasts."""
    size = st.sampled_from([1, 2, 3, 4, 8, 12])
    write = Writer(a=draw(size), b=draw(size), c=draw(size))
    for dims in draw(st.lists(st.sampled_from(["ab", "bc", "ac", "a"]), min_size=1, max_size=3)):
        write.source(dims, parameter=draw(st.booleans()))
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.lists(st.sampled_from(sorted(write.dims)), min_size=1, max_size=2))
        reads = [
            (tensor, draw(st.sampled_from([write.dims[tensor], "-" * len(write.dims[tensor])]))) for tensor in chosen
        ]
        out = draw(st.sampled_from(["ab", "bc", "ac", "abc", "a", "b"]))
        product = draw(st.booleans())
        whole = draw(st.sets(st.sampled_from("abc"), max_size=1))
        used = draw(st.none() | st.integers(1, write.model.tensors[chosen[0]].numbers))
        new = write.operator(reads, out, product=product, used=used, whole=frozenset(whole))
        if draw(st.booleans()):
            write.model.outputs.append(new)
    return write.model


def problem_of(model, mesh="2x4", **options):
    """The problem without a limit; None if the mesh divides nothing."""
    try:
        return as_intraop(model, DEVICE, mesh, memory=math.inf, **options)
    except InputError:
        return None


@settings(max_examples=draws(60, 30, 120), deadline=None)
@given(model=written_models(), mesh=st.sampled_from(["2", "4", "2x2", "3x2"]), data=st.data())
def test_costs_and_memory_agree_with_the_oracle(model, mesh, data):
    problem = problem_of(model, mesh)
    if problem is None:
        return
    choices = [data.draw(st.integers(0, group.size - 1)) for group in problem.groups]
    solution = problem.solution(choices)
    verdict = verify(problem.instance, solution)
    assert verdict.feasible
    assert abs(verdict.cost - oracle_cost(problem, choices)) <= 0.5 * (problem.instance.nodes + problem.instance.edges)
    rows = problem.instance.strategy_start[:-1] + np.array(solution)
    peak = problem.instance.peak(problem.instance.usage[rows])
    most = oracle_peak(problem, choices)
    assert peak <= most
    if all(len(group.layouts) == 1 for group in problem.groups):  # no buffer is used twice
        assert peak == most


STEPS = Path(__file__).parents[2] / "data" / "stablehlo"


@pytest.mark.gate(cases=2)
@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("path", [*LIGHT, *sorted(STEPS.glob("*.gz"))], ids=lambda path: path.name)
def test_costs_of_plans_of_real_models_agree_with_the_oracle(path):
    model = read_onnx(path) if path.suffix == ".onnx" else read_stablehlo(path)
    problem = problem_of(model)
    random = np.random.default_rng(0)
    for _ in range(5):
        choices = [int(random.integers(group.size)) for group in problem.groups]
        cost = verify(problem.instance, problem.solution(choices)).cost
        assert abs(cost - oracle_cost(problem, choices)) <= 0.5 * (problem.instance.nodes + problem.instance.edges)
    first = verify(problem.instance, problem.solution([0] * len(problem.groups))).cost
    assert first == pytest.approx(roofline(model, DEVICE).seconds.sum() * 1e9, abs=problem.instance.nodes)


@settings(max_examples=draws(30, 20, 60), deadline=None)
@given(model=written_models())
def test_a_plan_that_splits_nothing_costs_the_roofline(model):
    problem = problem_of(model)
    if problem is None:
        return
    first = [0] * len(problem.groups)
    assert all(set(split) == {None} for split in splits(problem, first))
    cost = verify(problem.instance, problem.solution(first)).cost
    assert cost == pytest.approx(roofline(model, DEVICE).seconds.sum() * 1e9, abs=problem.instance.nodes)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        architectures.transformer(**TRANSFORMER),
        architectures.residual_network(batch=4, pixels=32, width=16, depth=50, classes=10),
        architectures.sequence_to_sequence(layers=2, steps=4, batch=8, width=64, vocabulary=128),
    ],
    ids=["transformer", "resnet", "lstm"],
)
def test_memory_times_parts_is_the_size_of_the_tensor(model, training):
    problem = problem_of(model, training=training)
    assert len(problem.groups) < len(model.operators) + sum(tensor.parameter for tensor in model.tensors)
    for node, group in zip(problem.nodes, problem.groups, strict=False):
        for tensor, layouts in group.layouts.items():
            if len(group.layouts) == 1:
                size = model.tensors[tensor].bytes * (8 if training and model.tensors[tensor].parameter else 1)
                whole = node.usages * problem.mesh.parts(layouts)
                assert ((whole >= size) & (whole < size + problem.mesh.parts(layouts))).all()


def test_every_plan_of_one_product_by_hand():
    write = Writer(m=4, n=8, k=2)
    x, w = write.source("mk"), write.source("kn", parameter=True)
    write.model.outputs.append(write.product(x, w, "mn"))
    problem = problem_of(write.model, "2")
    assert [group.size for group in problem.groups] == [3, 3, 4]
    assert [node.begin for node in problem.nodes] == [0, 0, 0]
    latency = 3000
    # Bytes: x 32, w 64, y 128 at 500 per nanosecond; launch 1000; 40 bytes per nanosecond between devices.
    operator = {None: 1000, "m": 1000, "n": 1000, "k": 1000 + latency + 128 / 40}
    gather = {"m": 0.4, "k": 0.4, "n": 0.8}  # half of x, or of w, as bytes / 40
    for choices in itertools.product(range(3), range(3), range(4)):
        solution = problem.solution(choices)
        (split,) = problem.loops(solution).values()
        specs = problem.specs(solution)
        expected = operator[split[0]]
        for name, dims in (("t0", "mk"), ("t1", "kn")):
            held = [dim for dim, axes in zip(dims, specs[name], strict=True) if axes]
            if held and held[0] != split[0]:
                exchanged = split[0] is not None and split[0] in dims
                expected += latency + gather[held[0]] / (2 if exchanged else 1)
        assert verify(problem.instance, solution).cost == pytest.approx(expected, abs=2.5)


def test_cheap_operators_share_a_choice_with_a_neighbour():
    problem = problem_of(chain())
    together = [sorted(group.splits) for group in problem.groups if group.splits]
    assert together == [[0, 1, 2], [3]]  # the bias is broadcast where it is added
    for choice in range(problem.groups[2].size):
        first, wide, added, _ = splits(problem, [0, 0, choice, 0, 0, 0])
        kept = tuple(loop if loop != "k" else None for loop in first)
        assert wide == added == kept
    assert len(problem.nodes) == len(problem.groups) + 1
    assert problem.edges[-1].costs.max() == IMPOSSIBLE


def test_a_sum_follows_the_longer_of_two_branches():
    write = Writer(m=16, n=8)
    x, w = write.source("mn"), write.source("nn", parameter=True)
    first = write.operator([(x, "m-"), (w, "-n")], "mn", product=True)
    second = write.operator([(first, "m-"), (w, "-n")], "mn", product=True)
    write.operator([first, second], "mn")
    problem = problem_of(write.model)
    assert [sorted(group.splits) for group in problem.groups if group.splits] == [[0], [1, 2]]


def test_an_operator_that_can_be_split_does_not_follow_one_that_cannot():
    write = Writer(m=16, n=8)
    x = write.source("mn")
    whole = write.operator([(x, "--")], "mn", whole=frozenset("mn"), known=False)
    write.operator([whole], "mn")
    problem = problem_of(write.model)
    assert [sorted(group.splits) for group in problem.groups] == [[0], [1]]
    assert [group.size for group in problem.groups] == [1, 9]


def test_an_operator_that_reads_last_writes_over_its_input_and_a_view_shares_it():
    write = Writer(m=16, n=8)
    x, w = write.source("mn"), write.source("nn", parameter=True)
    y = write.operator([(x, "m-"), (w, "-n")], "mn", product=True)
    z = write.operator([y], "mn")
    seen = write.operator([z], "mn", view=True)
    write.model.outputs.append(write.operator([seen, z], "mn"))
    problem = problem_of(write.model)
    assert [(node.begin, node.end) for node in problem.nodes] == [(0, 1), (0, 4), (0, 4)]
    training = problem_of(write.model, training=True)
    assert [(node.begin, node.end) for node in training.nodes] == [(0, 8), (0, 8), (0, 8), (1, 7), (3, 5)]


def test_training_adds_a_backward_pass_to_a_model_without_one():
    forward, training = (problem_of(chain(), training=flag) for flag in (False, True))
    assert training.instance.summary()["time_steps"] == 2 * forward.instance.summary()["time_steps"]
    assert training.instance.summary()["simple_bound"] > 2 * forward.instance.summary()["simple_bound"]
    write = Writer(m=16, n=8)
    write.operator([write.source("mn")], "mn", backward=True)
    one, two = (problem_of(write.model, training=flag) for flag in (False, True))
    assert one.instance.summary() == two.instance.summary()


def test_training_sums_the_gradients_of_what_is_split_otherwise():
    write = Writer(m=4, n=8, k=2)
    x, w = write.source("mk"), write.source("kn", parameter=True)
    write.model.outputs.append(write.product(x, w, "mn"))
    problem = problem_of(write.model, "2", training=True)
    node, costs = problem.nodes[2], {}
    for choice in range(4):
        (split,) = problem.loops([0, 0, choice]).values()
        costs[split[0]] = int(node.costs[choice])
    # The input of the model has no gradient, so that only those of w, 64 bytes, and partial outputs, 128 bytes, count.
    expected = {None: 3000, "m": 3000 + 3000 + 64 / 40, "n": 3000, "k": 3000 + 3000 + 128 / 40}
    assert costs == pytest.approx(expected, abs=2)
    update = 2 * 8 * 64 / 500  # parameter, gradient, master copy and moments are read and written
    assert problem.nodes[1].costs.tolist() == [round(update), *[round(update / 2)] * 2]


def test_what_replaces_a_parameter_takes_its_memory_and_its_layout():
    write = Writer(m=16, n=8)
    x, w = write.source("mn"), write.source("mn", parameter=True)
    gradient = write.operator([x], "mn")
    new = write.operator([gradient, w], "mn")
    write.operator([new], "mn")
    write.model.outputs.append(new)
    kept = problem_of(write.model)
    write.model.updates[w] = new
    replaced = problem_of(write.model)
    place = next(i for i, group in enumerate(kept.groups) if w in group.layouts)
    assert (kept.nodes[place].end, replaced.nodes[place].end) == (3, 2)
    choices = [0 if i == place else group.size - 1 for i, group in enumerate(kept.groups)]
    costs = [verify(problem.instance, problem.solution(choices)).cost for problem in (kept, replaced)]
    gathered = 512 / 8 * (1 + 3) / 40  # one part of eight along the first axis, three along the second
    assert costs[1] - costs[0] == pytest.approx(3000 + gathered, abs=2)


def test_a_parameter_of_several_operators_is_one_node():
    model = architectures.sequence_to_sequence(layers=1, steps=6, batch=8, width=64, vocabulary=128)
    problem = problem_of(model)
    held = [t for group in problem.groups for t in group.layouts if model.tensors[t].parameter]
    assert len(held) == len(set(held)) == sum(tensor.parameter for tensor in model.tensors)


def test_plans_name_the_loops_of_operators_and_the_axes_of_dimensions():
    problem = problem_of(chain())
    operators = problem.model.operators

    def along_m(group, i):
        return all((*operators[op].loops, None)[s[i, 0]] == "m" and s[i, 1] < 0 for op, s in group.splits.items())

    choice = [next(i for i in range(group.size) if along_m(group, i)) for group in problem.groups]
    solution = problem.solution(choice)
    assert set(problem.loops(solution).values()) == {("m", None)}
    assert problem.specs(solution)["t4"] == ((0,), ())
    both = next(i for i, layout in enumerate(problem.groups[0].layouts[0]) if layout.tolist() == [0, 0])
    assert problem.specs(problem.solution([both, *choice[1:]]))["t0"] == ((0, 1), ())


def test_the_limit_is_the_memory_of_the_device_unless_another_is_given():
    assert as_intraop(chain(), DEVICE, "2").instance.usage_limit == 10**9
    assert as_intraop(chain(), DEVICE, "2", memory=5000).instance.usage_limit == 5000
    assert problem_of(chain()).instance.usage_limit is None


@pytest.mark.parametrize(
    ("mesh", "memory", "expected"),
    [
        ("2,4", None, "written: mesh: expected axis sizes of at least 2, such as 2x4, found '2,4'"),
        ("5x7", None, "written: mesh: expected axis sizes that divide a dimension of a tensor, found 5x7"),
        (
            "2x4",
            100,
            "written: memory: expected parameters that fit into 100 bytes per device, found at least 272: 172 too many",
        ),
        (
            "2x4",
            300,
            "written: memory: expected tensors in use that fit into 300 bytes per device, "
            "found at least 784: 484 too many",
        ),
    ],
)
def test_bad_input_is_told_in_one_sentence(mesh, memory, expected):
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        as_intraop(chain(), DEVICE, mesh, memory=memory)


def test_figures_too_large_for_64_bits_are_refused():
    write = Writer(m=2**30, n=2**30)
    write.operator([write.source("mn")], "mn")
    with pytest.raises(InputError, match=r"memory: expected tensors of less than 2\^60 bytes in all"):
        as_intraop(write.model, DEVICE, "2x4")
    write = Writer(m=2**20, n=2**20, k=2**20)
    write.product(write.source("mk"), write.source("kn"), "mn")
    slow = dataclasses.replace(DEVICE, peak={"float32": 1.0})
    with pytest.raises(InputError, match="costs: expected less than 1e"):
        as_intraop(write.model, slow, "2x4", memory=math.inf)
