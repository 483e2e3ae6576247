"""Lays a training or serving run out over a cluster, and proves how far from the best layout that is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from shardmark.harness import verify
from shardmark.instances.errors import InputError
from shardmark.instances.hybrid import Instance
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import computed_in
from shardmark.plans.cluster.attention import with_kernels
from shardmark.plans.cluster.blocks import Block, blocks_of
from shardmark.plans.cluster.certified_layout import CertifiedLayout, Unproven
from shardmark.plans.cluster.configurations import Costs, costs_of, parameters_of
from shardmark.plans.cluster.machines.memory import (
    TOLERANCE,
    lacking_bytes,
    refuse_large,
    working,
    working_bytes,
    working_of_choices,
)
from shardmark.plans.cluster.practice import Practice, practices
from shardmark.plans.cluster.problem import names, problem
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.saving import save
from shardmark.plans.cluster.serving.latency import customs as of_latency
from shardmark.plans.cluster.serving.latency import fastest, latency
from shardmark.plans.cluster.stages import chosen_costs, stages_of
from shardmark.plans.cluster.steps.passes import NO_BACKWARD, with_backward
from shardmark.plans.cluster.submodels import forward_pass, part_of
from shardmark.plans.cluster.views.notebook import notebook
from shardmark.plans.cluster.views.text import text
from shardmark.plans.exports.torch_layout import has_modules
from shardmark.plans.solving import CLOSE, Certified, Step, certify
from shardmark.runs import series

#: Blocks mostly follow each other in a chain, along which the exact program is fastest.
STEPS = (Step("dp", "solver", 0.6), Step("search", "solver", 1.0))
#: Share of the time for the layout and bound without the memory that blocks need while they run.
FIRST = 0.7
#: How `certify` begins where no method finds a solution.
NO_SPLIT = "a model that the devices can hold and run; no split was found"
#: Parts of the memory that are reserved for blocks while they run, one after another until a layout fits, at most.
MOST_PARTS = 6


@dataclass(frozen=True)
class ClusterLayout(CertifiedLayout):
    """A layout of a run, as `shardmark.plan` returns it; the fields are those of `CertifiedLayout`."""

    def save(self, folder: str | os.PathLike[str], *, export: str | None = None) -> Path:
        """Write ``plan.json``, ``plan.html``, the instance and its solution into a folder, which is made if needed.

        ``export="torch"`` adds ``layout.torch.json``, of which PyTorch makes a pipeline, and ``export="specs"``
        ``specs.json`` with the shardings of each stage for JAX. Returns the path of ``plan.json``. Raises InputError if
        the layout has no such file.
        """
        return save(self, Path(folder), export)

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return notebook(self)


@series()
def lay_out(
    source: Path,
    model: Model,
    run: Run,
    *,
    timeout: float,
    cores: int,
    seed: int,
    tell: Callable[[str], None],
    given: Mapping[str, Any] | None = None,
) -> ClusterLayout:
    """The best layout that is found; InputError if none fits, with the bytes that are missing.

    With a ``given`` solution the layout is that one, with the bound of the search; InputError if it breaks a rule.
    """
    forward = forward_pass(model)
    blocks = blocks_of(forward, at_modules=has_modules(source, forward))
    parts, rule = _parts(model, forward, blocks, run)
    tell(f"{len(blocks)} blocks; degrees {', '.join(map(str, run.degrees))}")
    costs = costs_of(parts, run, tell)
    if not any(one.step_s for menu in costs for one in menu):
        raise InputError(source, "", "expected operators that take time, found none to lay out")
    refuse_large(source, [block.name for block in blocks], costs, run)
    relaxed = problem(forward, blocks, costs, run, run.device.memory)
    if given is not None and (broken := verify.verify(relaxed, given).violations):
        raise InputError("plan", "solution", f"expected one of this model that keeps all rules, found {broken[0]}")
    try:
        if run.objective == "latency":
            customs, found = of_latency(relaxed, costs), fastest(relaxed, working_of_choices(relaxed, costs))
        else:
            customs = practices(relaxed, costs)
            search = partial(certify, tell=tell, cores=cores, seed=seed, unit_us=1e6)
            found = _best(relaxed, partial(problem, forward, blocks, costs, run), costs, customs, search, timeout, tell)
    except InputError as error:
        raise InputError(source, error.place, error.expected) from error
    solution, cost = (found.solution, found.cost) if given is None else (given, _cost(relaxed, given, run))
    return ClusterLayout(
        source,
        forward,
        blocks,
        costs,
        run,
        _backward(costs),
        rule,
        relaxed,
        solution,
        float(cost),
        float(found.lower_bound),
        found.bound_from,
        _unproven(blocks, costs),
        _splits(solution, parts, costs),
        stages_of(relaxed, solution, blocks, costs, run),
        customs,
        _utilisation(forward, run, float(cost)),
    )


def _cost(instance: Instance, solution: Mapping[str, Any], run: Run) -> float:
    """The objective of a solution."""
    if run.objective == "latency":
        return latency(instance, solution)
    cost = verify.verify(instance, solution).cost
    assert cost is not None
    return float(cost)


def _parts(model: Model, forward: Model, blocks: Sequence[Block], run: Run) -> tuple[list[Model], str | None]:
    """The operators of every block, and if the backward pass follows a rule, why; None if the step has its own."""
    step = with_backward(model, blocks) if run.training else NO_BACKWARD
    if not isinstance(step, str):
        return step, None
    readers = forward.readers()
    parts = [with_kernels(part_of(forward, block.operators, readers=readers)) for block in blocks]
    for part, block in zip(parts, blocks, strict=True):
        part.name = block.name
    return parts, step


def _backward(costs: Sequence[Sequence[Costs]]) -> float:
    """Time of the backward pass on one device, of that of the forward pass."""
    forward, step = (sum(menu[0].forward_s for menu in costs), sum(menu[0].step_s for menu in costs))
    return step / forward - 1 if forward else 0.0


def _splits(
    solution: Mapping[str, Any], parts: Sequence[Model], costs: Sequence[Sequence[Costs]]
) -> list[dict[str, tuple[bool, ...]]]:
    """The dimensions of every block's parameters that the devices of a replica split, by name."""
    return [
        dict(zip((tensor.name for tensor in parameters_of(part)), chosen.splits, strict=True))
        for part, chosen in zip(parts, chosen_costs(solution, costs), strict=True)
    ]


def _best(
    relaxed: Instance,
    problem_of: Callable[..., Instance],
    costs: Sequence[Sequence[Costs]],
    customs: Sequence[Practice],
    search: Callable[..., Certified],
    timeout: float,
    tell: Callable[[str], None],
) -> Certified:
    """The best layout that is found, customary ones among them, with a bound.

    The problem ``relaxed`` leaves out the memory that blocks need while they run. The bound is for that with the memory
    of the largest block alone, as no stage needs less than one of its blocks. If the layout still lacks memory, the
    best of those that fit is searched for.
    """
    largest = max(range(len(costs)), key=lambda number: max(one.running for one in costs[number]))
    ends = time.monotonic() + timeout
    known = min(((one.solution, one.cost) for one in customs if one.cost is not None), key=itemgetter(1), default=None)

    def of_largest(block: int, one: Costs, name: str) -> float:
        return working(one, name, whole=False) if block == largest else 0.0

    try:
        found = search(problem_of(relaxed.memory, of_largest), STEPS, FIRST * timeout, known=known)
        solution = found.solution
        if lacking_bytes(relaxed, solution, costs) > TOLERANCE * relaxed.memory:
            fitting = _fitting(relaxed, problem_of, costs, search, found, ends, tell)
            solution = fitting if fitting is not None or known is None else known[0]
        if solution is None:
            raise InputError(relaxed.source, "memory", "expected more: no layout was found that fits")
    except InputError as error:
        closest = min(customs, key=lambda one: one.lacking)
        lack = f"{closest.layout}, which lacks least memory, needs {closest.lacking:,.0f} bytes more per device"
        expected = error.expected.replace(NO_SPLIT, "more memory or devices; no layout was found")
        raise InputError(error.source, error.place, f"{expected}; the customary layout {lack}") from error
    cost = verify.verify(relaxed, solution).cost
    assert cost is not None
    best = min([(solution, cost), *([] if known is None else [known])], key=itemgetter(1))
    return Certified(*best, found.lower_bound, found.bound_from)


def _fitting(
    relaxed: Instance,
    problem_of: Callable[..., Instance],
    costs: Sequence[Sequence[Costs]],
    search: Callable[..., Certified],
    lacking: Certified,
    ends: float,
    tell: Callable[[str], None],
) -> Any:
    """The best layout found that fits with the memory that blocks need while they run; None if none is found.

    A part of the memory is reserved on all devices; a block that needs more while it runs adds the rest to what its
    stage holds. So no stage lacks memory. The parts are what the stages of the ``lacking`` layout need; if none of
    these has a layout, what other blocks need.
    """
    divided = any(one.whole for menu in costs for one in menu)
    own = sorted(set(working_bytes(lacking.solution, costs)), reverse=True)
    needs = {working(one, name, whole=divided) for menu in costs for one in menu for name in names(one)}
    others = sorted(needs - set(own), reverse=True)
    best: Certified | None = None
    for number, part in enumerate([*_some(own), *_some(others), 0.0]):
        over = number >= len(_some(own)) or time.monotonic() > ends
        if best is not None and (over or best.cost <= lacking.lower_bound * (1 + CLOSE)):
            break
        for whole in (True, False) if divided else (False,):

            def rest(block: int, one: Costs, name: str, part: float = part, whole: bool = whole) -> float:
                return max(working(one, name, whole=whole) - part, 0.0)

            tell(f"reserving {part / 2**30:.2g} GiB for blocks while they run")
            try:
                tightened = problem_of(max(relaxed.memory - part, 0.0), rest)
                found = search(tightened, STEPS, max(ends - time.monotonic(), 0.0) / 2, tell=_silent)
            except InputError:
                continue
            fits = lacking_bytes(relaxed, found.solution, costs) <= TOLERANCE * relaxed.memory
            if fits and (best is None or found.cost < best.cost):
                best = found
    return None if best is None else best.solution


def _some(parts: Sequence[float]) -> Sequence[float]:
    """At most `MOST_PARTS` of all parts, the first one among them."""
    return parts[:: -(-len(parts) // MOST_PARTS)] if parts else parts


def _silent(words: str) -> None:
    """Tell nothing: bounds of a problem with less memory do not count."""


def _unproven(blocks: Sequence[Block], costs: Sequence[Sequence[Costs]]) -> list[Unproven]:
    found: dict[Costs, list[str]] = {}
    for block, menu in zip(blocks, costs, strict=True):
        for one in menu:
            if one.gap != 0:
                found.setdefault(one, []).append(block.name)
    return [Unproven(tuple(names), one.degree, one.lean, one.gap) for one, names in found.items()]


def _utilisation(model: Model, run: Run, cost: float) -> float:
    """Share of the peak rate that the model's products have, those of recomputation not counted."""
    products = [index for index, operator in enumerate(model.operators) if operator.multiply_adds]
    if not products:
        return 0.0
    passes = 3 if run.training else 1
    seconds = sum(
        2 * model.operators[index].multiply_adds / run.device.rate(computed_in(model, index)) for index in products
    )
    times = run.microbatches if run.training else 1
    return passes * times * seconds / (cost * run.machines * run.devices)
