"""Training graphs for ``scheduling``, operation by operation as TensorFlow unrolls them: forward, backward, optimiser.

Mayer et al. (DIDL 2017, Table 1) took three networks from examples and give their numbers of vertices, edges and
colocated vertices. Here the networks are rewritten; gradients are derived from the forward pass. Constants, and edges
that only order operations, fill the graphs up to the numbers in the table. Colocated are variables with all operations
that hold or change their state, then gradients with the operations that forward them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.generate.simulated import links, speeds, weights
from shardmark.instances.graph import Graph
from shardmark.instances.scheduling import Instance


def convolutional(draws: Draws, *, devices: int) -> Instance:
    """Two convolutions with pooling and two dense layers, trained with Adam: 347 vertices, 531 edges, 104 colocated."""
    net = _Network()
    image, labels, kept = net.add("x"), net.add("y"), net.add("keep_prob")
    hidden = net.unary("Reshape", image)
    for number in (1, 2):
        hidden = net.binary("Conv2D", hidden, net.variable(f"wc{number}"))
        hidden = net.unary("Relu", net.binary("BiasAdd", hidden, net.variable(f"bc{number}")))
        hidden = net.unary("MaxPool", hidden)
    dense = net.binary("MatMul", net.unary("Reshape", hidden), net.variable("wd1"))
    dense = net.unary("Relu", net.broadcast("Add", dense, net.variable("bd1")))
    noise = net.add("Floor", net.add("Add", kept, net.add("RandomUniform", net.add("Shape", dense))))
    dropped = net.broadcast("Mul", net.broadcast("Div", dense, kept), noise)
    logits = net.broadcast("Add", net.binary("MatMul", dropped, net.variable("out_w")), net.variable("out_b"))
    net.train(logits, labels)
    return net.instance(draws, devices, vertices=347, edges=531, colocated=104)


def recurrent(draws: Draws, *, devices: int) -> Instance:
    """A recurrent network of 28 steps with an LSTM cell each: 3,069 vertices, 5,533 edges, 533 colocated."""
    net = _Network()
    _unroll(net, 28, lambda net, state, new, step: new)
    return net.instance(draws, devices, vertices=3069, edges=5533, colocated=533)


def dynamic_recurrent(draws: Draws, *, devices: int) -> Instance:
    """A recurrent network for sequences that may end early: 5,271 vertices, 9,214 edges, 1,356 colocated."""
    net = _Network()
    _unroll(net, 36, _kept_after_the_end)
    return net.instance(draws, devices, vertices=5271, edges=9214, colocated=1356)


#: Operations that only move numbers: their gradients do not read them.
MOVERS = {"Reshape", "Split", "Transpose", "Unstack"}

State = tuple[int, int]


def _unroll(net: _Network, steps: int, then: Callable[[_Network, State, State, int], State]) -> None:
    """Consecutive LSTM cells with shared weights; ``then`` chooses the next state from the old and the new one."""
    data, labels = net.add("x"), net.add("y")
    inputs = net.unary("Transpose", data)
    kernel, bias = net.variable("kernel"), net.variable("bias")
    state = net.add("zeros"), net.add("zeros")
    for step in range(steps):
        state = then(net, state, _cell(net, net.unary("Unstack", inputs), state, kernel, bias), step)
    out = net.broadcast("Add", net.binary("MatMul", state[1], net.variable("out_w")), net.variable("out_b"))
    net.train(out, labels)


def _cell(net: _Network, read: int, state: State, kernel: int, bias: int) -> State:
    """An LSTM cell: its next content and its output."""
    content, shown = state
    gates = net.binary("BiasAdd", net.binary("MatMul", net.binary("ConcatV2", read, shown), kernel), bias)
    new, forget, let_in, let_out = (net.unary("Split", gates) for _ in range(4))
    forget = net.unary("Sigmoid", net.broadcast("Add", forget, net.add("forget_bias")))
    kept = net.broadcast("Mul", content, forget)
    added = net.broadcast("Mul", net.unary("Sigmoid", let_in), net.unary("Tanh", new))
    content = net.broadcast("Add", kept, added)
    return content, net.broadcast("Mul", net.unary("Tanh", content), net.unary("Sigmoid", let_out))


def _kept_after_the_end(net: _Network, state: State, new: State, step: int) -> State:
    """The old state if a sequence has ended, else the new one."""
    ended = net.add("GreaterEqual", net.add("time"), net.add("sequence_length"))
    content, shown = (net.binary("Select", old, fresh, reads=(ended,)) for old, fresh in zip(state, new, strict=True))
    return content, shown


@dataclass
class _Step:
    """An operation that gradients flow through: its inputs, and the number of operations per gradient."""

    made: int
    inputs: tuple[int, ...]
    kind: str


@dataclass
class _Network:
    """A graph under construction; each operation is added after its inputs."""

    names: list[str] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    group: dict[int, int] = field(default_factory=dict)  # colocation group of a vertex, named by its first vertex
    forwarded: list[tuple[int, int]] = field(default_factory=list)  # gradients and the operations that forward them
    tape: list[_Step] = field(default_factory=list)
    variables: dict[int, int] = field(default_factory=dict)  # the variable of each read

    def add(self, name: str, *inputs: int, companion: int | None = None) -> int:
        """Add an operation, in the colocation group of another one if given."""
        made = len(self.names)
        self.names.append(f"{name}-{made}")
        self.edges.update(dict.fromkeys((u, made) for u in inputs))
        if companion is not None:
            self.group.setdefault(companion, companion)
            self.group[made] = self.group[companion]
        return made

    def unary(self, kind: str, read: int) -> int:
        """Add an operation with one differentiable input."""
        return self._recorded_on_tape(kind, "unary", read)

    def binary(self, kind: str, *inputs: int, reads: tuple[int, ...] = ()) -> int:
        """Add an operation with two differentiable inputs, and others."""
        return self._recorded_on_tape(kind, "binary", *inputs, reads=reads)

    def broadcast(self, kind: str, *inputs: int) -> int:
        """Add an operation of two inputs that may broadcast, so that gradients are summed and reshaped."""
        return self._recorded_on_tape(kind, "broadcast", *inputs)

    def _recorded_on_tape(self, name: str, kind: str, *inputs: int, reads: tuple[int, ...] = ()) -> int:
        made = self.add(name, *inputs, *reads)
        self.tape.append(_Step(made, inputs, kind))
        return made

    def variable(self, name: str) -> int:
        """Add a variable, its initial value and a read, which is returned."""
        shape, mean, deviation = (self.add(f"{name}/{part}") for part in ("shape", "mean", "stddev"))
        scaled = self.add(f"{name}/mul", self.add(f"{name}/RandomStandardNormal", shape), deviation)
        value = self.add(name)
        self.add(f"{name}/Assign", value, self.add(f"{name}/add", scaled, mean), companion=value)
        read = self.add(f"{name}/read", value, companion=value)
        self.variables[read] = value
        return read

    def train(self, logits: int, labels: int) -> None:
        """Add the loss, gradients to all variables, a step of Adam for each, and the accuracy."""
        loss = self.binary("Mean", self.unary("SoftmaxCrossEntropy", logits))
        self.edges[labels, self.tape[-2].made] = None
        guessed, right = self.add("ArgMax", logits), self.add("ArgMax", labels)
        self.add("accuracy", self.add("Cast", self.add("Equal", guessed, right)))
        self._descend(self._gradients(loss))

    def _gradients(self, loss: int) -> dict[int, int]:
        """Add the gradient of each read of a variable."""
        reach = set(self.variables)
        for step in self.tape:
            if reach.intersection(step.inputs):
                reach.add(step.made)
        arriving: dict[int, list[int]] = defaultdict(list)
        arriving[loss] = [self.add("gradients/Fill", self.add("gradients/Shape", loss))]
        for step in reversed(self.tape):
            if step.made in reach and arriving[step.made]:
                self._back(step, self._summed(arriving[step.made]), arriving, reach)
        return {read: self._summed(arriving[read]) for read in self.variables}

    def _summed(self, gradients: list[int]) -> int:
        return gradients[0] if len(gradients) == 1 else self.add("gradients/AddN", *gradients)

    def _back(self, step: _Step, gradient: int, arriving: dict[int, list[int]], reach: set[int]) -> None:
        """Add the gradients of an operation's inputs, each computed from another input or from the output."""
        name = f"gradients/{self.names[step.made]}"
        if step.kind == "unary":
            if step.inputs[0] in reach:
                reads = () if self.names[step.made].split("-")[0] in MOVERS else (step.made,)
                arriving[step.inputs[0]].append(self.add(name, gradient, *reads))
            return
        shapes = [self.add(f"{name}/Shape", u) for u in step.inputs] if step.kind == "broadcast" else []
        reduced = [self.add(f"{name}/BroadcastGradientArgs", *shapes)] if shapes else []
        parts = []
        for place, u in enumerate(step.inputs):
            others = [w for w in step.inputs if w != u][:1] or [step.made]
            part = self.add(f"{name}/part", gradient, *others)
            if shapes:
                part = self.add(f"{name}/Reshape", self.add(f"{name}/Sum", part, *reduced), shapes[place])
            parts.append(part)
        together = self.add(f"{name}/group_deps", *parts)
        for u, part in zip(step.inputs, parts, strict=True):
            handed = self.add(f"{name}/control_dependency", part, together)
            self.forwarded.append((part, handed))
            if u in reach:
                arriving[u].append(handed)

    def _descend(self, gradients: dict[int, int]) -> None:
        """Add Adam: moments of each gradient, and powers of their decay with the first variable."""
        first = next(iter(self.variables.values()))
        powers = [self._held(f"beta{number}_power", first) for number in (1, 2)]
        settings = [self.add(f"Adam/{name}") for name in ("learning_rate", "beta1", "beta2", "epsilon")]
        steps = []
        for read, gradient in gradients.items():
            value = self.variables[read]
            moments = [self._held(f"{self.names[value]}/Adam", value) for _ in range(2)]
            reads = (value, *(held for held, _ in moments), *(read for _, read in powers), *settings, gradient)
            steps.append(self.add("Adam/ApplyAdam", *reads, companion=value))
        for (_, power), decay in zip(powers, settings[1:3], strict=True):
            self.add("Adam/Assign", self.add("Adam/mul", power, decay), *steps)

    def _held(self, name: str, companion: int) -> tuple[int, int]:
        """Add a variable with a state of the optimiser, and its read."""
        start = self.add(f"{name}/initial", companion=companion)
        held = self.add(name, companion=companion)
        self.add(f"{name}/Assign", held, start, companion=companion)
        return held, self.add(f"{name}/read", held, companion=companion)

    def instance(self, draws: Draws, devices: int, *, vertices: int, edges: int, colocated: int) -> Instance:
        """The instance, filled up to these numbers, with weights and ``devices`` devices drawn as in Section 5.1."""
        self._fill(draws, vertices, edges, colocated)
        tail, head = np.array(list(self.edges)).T
        bandwidth = links(draws, devices)
        n = len(self.names)
        return Instance(
            name="training",
            graph=Graph(n, tail, head),
            node_names=tuple(self.names),
            complexity=weights(draws, n),
            size=weights(draws, len(tail)),
            colocation=np.array([self.group.get(v, -1) for v in range(n)]),
            choices=(),
            choice=np.full(n, -1),
            device_names=tuple(f"device-{d}" for d in range(devices)),
            speed=speeds(draws, devices),
            memory=np.full(devices, np.inf),
            bandwidth=bandwidth,
        )

    def _fill(self, draws: Draws, vertices: int, edges: int, colocated: int) -> None:
        """Colocate gradients with the operations that forward them, then add constants, then edges that only order."""
        for gradient, handed in self.forwarded:
            room = colocated - len(self.group)
            if room >= 2:
                self.group[gradient] = self.group[handed] = gradient
            elif room == 1:
                self.group[handed] = next(reversed(self.group.values()))
        readers = np.flatnonzero(np.bincount([v for _, v in self.edges], minlength=len(self.names)))
        ordered = len(self.names)
        for at in draws.integers(0, len(readers), max(0, vertices - ordered)).tolist():
            self.edges[self.add("Const"), int(readers[at])] = None
        while len(self.edges) < edges:
            u, v = sorted(draws.integers(0, ordered, 2).tolist())
            if u < v:
                self.edges[u, v] = None
        if (len(self.names), len(self.edges), len(self.group)) != (vertices, edges, colocated):
            found = f"{len(self.names)}, {len(self.edges)} and {len(self.group)}"
            raise InputError("generate", "graph", f"expected at most {vertices}, {edges}, {colocated}, found {found}")
