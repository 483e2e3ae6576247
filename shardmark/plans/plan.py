"""From a model and devices to a certified split: import, estimate times, solve, bound, verify."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np

from shardmark.harness.results.grades import CLAIMED
from shardmark.harness.verify import verify
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import read_bytes, require_regular, sha256
from shardmark.instances.models.model import Model
from shardmark.instances.models.reader import is_onnx, read_model
from shardmark.instances.models.roofline import Costs, roofline
from shardmark.leaderboard.text import count
from shardmark.outcomes import Cost
from shardmark.plans.certified_split import CertifiedSplit
from shardmark.plans.cluster.layout import ClusterLayout
from shardmark.plans.cluster.request import plan_run, refuse, require_cluster
from shardmark.plans.joined_passes import is_training_step
from shardmark.plans.joining import Joined
from shardmark.plans.solving import Certified, certify
from shardmark.plans.splits import Split, stages_of
from shardmark.plans.targets import DEVICE, AcceleratorsAndCpus, MeshOfDevices, Pipeline, Task, target_of
from shardmark.plans.times.pricing import measured_costs
from shardmark.plans.whole import Price, contract, patterns_of

DEFAULT_TIMEOUT_S = 30.0
#: Share of the time for the search with whole modules, the rest is for the one without them.
WHOLE_SHARE = 0.5
#: Relative error of the sums of times within a module, generously.
ROUNDING = 1e-12

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan(CertifiedSplit):
    """A split of a model over devices, as `plan` returns it; the fields are those of `CertifiedSplit`."""

    def save(self, folder: str | os.PathLike[str], *, export: str | None = None) -> Path:
        """Write ``plan.json``, ``plan.html`` and ``instance.json`` into a folder, which is made if needed.

        ``export`` adds files that run, as ``--export`` of the command line does: "stages", "annotated" or "specs".
        Returns the path of ``plan.json``. Raises InputError if the plan has no such files.
        """
        from shardmark.plans.saving import save

        return save(self, Path(folder), export)

    @property
    def picture(self) -> str:
        """The model's graph, every operator in the colour of its part, as SVG within HTML."""
        from shardmark.plans.page import picture

        return str(picture(self))

    def __str__(self) -> str:
        from shardmark.plans.page import text

        return text(self)

    def _repr_html_(self) -> str:
        from shardmark.plans.page import notebook

        return notebook(self)


def _measured(
    path: Path, model: Model, dims: Mapping[str, int] | None, branches: Mapping[str, str] | None, tell: Tell
) -> Costs:
    """Times of the operators, measured on this machine."""
    from shardmark.plans.runs.profile import profile

    measured = profile(path, dims, branches, tell=tell)
    names = [operator.name for operator in model.operators]
    absent = [name for name in names if name not in measured]
    if absent:
        tell(f"did not run in the profile and count as 0: {', '.join(absent[:5])}; {len(absent)} in all")
    return Costs(np.array([measured.get(name, 0.0) for name in names]), "measured on this machine")


def _sums(costs: Costs, groups: Sequence[Sequence[int]]) -> Costs:
    """Costs of joined operators, as sums over their members."""
    return Costs(np.array([costs.seconds[list(group)].sum() for group in groups]), costs.origin)


def _verified(task: Task, solution: Any) -> tuple[Any, Cost]:
    """A feasible solution, tidied, and its cost."""
    tidied = task.tidy(solution)
    verdict = verify(task.instance, tidied)
    if not verdict.feasible or verdict.cost is None:
        raise AssertionError(f"expected a split that is feasible, found {verdict.violations}")
    return tidied, verdict.cost


def _bounds_of_whole(kept: Any, found: Certified) -> list[tuple[Cost, str]]:
    """The bound for an instance whose nodes are modules, if it is one for their operators as well.

    Without a limit of memory both have the same costs, apart from the rounding of sums. With one, operators may free
    tensors earlier than a module does.
    """
    return [(found.lower_bound * (1 - ROUNDING), found.bound_from)] if kept.memory is None else []


def _require_values(
    paths: Mapping[str, object], dims: object, branches: object, *, timeout: object, cores: object, seed: object
) -> None:
    """InputError for arguments of `plan` of the wrong kind."""
    from shardmark.runs import positive, whole

    for name, path in paths.items():
        if not isinstance(path, str | os.PathLike):
            expected = "a name of the catalog or the path of a file" if name == "device" else "the path of a file"
            raise InputError(name, "", f"expected {expected}, found {type(path).__name__}")
    if not isinstance(dims, Mapping | None):
        raise InputError("dims", "", f"expected sizes by name, such as {{'batch': 8}}, found {dims!r}")
    if not isinstance(branches, Mapping | None) or not all(isinstance(x, str) for x in (branches or {}).values()):
        raise InputError("branches", "", f"expected choices by name, such as {{'cond': 'then'}}, found {branches!r}")
    for name, size in (dims or {}).items():
        whole(f"dims[{name!r}]", size)
    positive("timeout", timeout)
    whole("cores", cores)
    whole("seed", seed, least=0)


@overload
def plan(model: str | os.PathLike[str], *, cluster: None = None, **options: Any) -> Plan: ...
@overload
def plan(model: str | os.PathLike[str], *, cluster: str | Sequence[int], **options: Any) -> ClusterLayout: ...
def plan(  # type: ignore[misc]  # the overloads name only what their result depends on
    model: str | os.PathLike[str],
    *,
    devices: int | str | None = None,
    device: str | os.PathLike[str] = DEVICE,
    mesh: str | Sequence[int] | None = None,
    machine: str | os.PathLike[str] | None = None,
    cluster: str | Sequence[int] | None = None,
    batch: int | None = None,
    microbatch: int | None = None,
    train: str = "adam",
    objective: str | None = None,
    shard: str = "none",
    max_tensor: int = 8,
    dims: Mapping[str, int] | None = None,
    branches: Mapping[str, str] | None = None,
    split: Split | None = None,
    whole: str | Sequence[str] = (),
    fuse: bool | None = None,
    profile: bool = False,
    times: str | os.PathLike[str] | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    cores: int = 1,
    seed: int = 0,
    certificates: bool = False,
    progress: Tell = lambda _: None,
) -> Plan | ClusterLayout:
    """Split a model over devices, bound the distance to the best split, and verify the split.

    ``model``    an ONNX file, or StableHLO as text or portable artifact
    ``devices``  number of equal devices for a pipeline, or accelerators and CPUs such as "h100:6,epyc-9654:2"
                  for a placement
    ``mesh``     instead of ``devices``: a grid such as "2x4" or (2, 4), for a sharding strategy per operator
    ``machine``  instead of ``devices``: a JSON file of unequal devices and links, for a schedule
    ``cluster``  instead of ``devices``: machines and the devices of each, such as "4x8" or (4, 8), for a layout of a
                 training or serving run of which ``batch`` samples make a step, and ``microbatch`` are in the file's
                 inputs; ``train`` is "adam", "sgd" or "none", which serves the model with the best ``objective``,
                 "throughput" or "latency"; ``shard`` is what replicas divide among them: "none", "optimizer",
                 "gradients" or "weights"; ``max_tensor`` is the greatest tensor-parallel degree
    ``device``   the kind of device: a name of the catalog (``shardmark list devices``) or a TOML file
    ``dims``     values for symbolic sizes of an ONNX model, such as ``{"batch": 8}``; a size without a name is called
                 by its tensor and axis, such as ``"x.0"``
    ``branches``  for branches whose condition depends on inputs, by name or pattern, the one that is planned:
                 ``{"cond": "then"}``; else it is the dearer one
    ``split``    a split over equal devices to judge: the stage of every operator by its name, or a JSON file of
                 these or of an earlier plan; the plan is then this split, and ``better`` the cost of a better one
                 if one is found
    ``whole``    patterns of paths of modules that equal devices must not share, such as "*.layers.*"; the plan's
                 ``price`` says what that costs, see `shardmark.plans.whole`
    ``fuse``     True fuses chains of cheap operators first; by default only those of StableHLO, as XLA does
    ``profile``  True measures operators with ONNX Runtime on this machine instead of using the device's roofline
    ``times``    a file of measured times instead: a table or a profiler's trace, see `shardmark.plans.times`
    ``timeout``  seconds for solving and bounding
    ``certificates``  True asks for certificates of the bound and checks them, which takes part of the time; not for
                 ``cluster``
    ``progress``  called with a sentence per step

    Raises InputError for bad input, for an infeasible split, and if no split that fits is found.
    """
    paths = {
        "model": model,
        "device": device,
        **({} if machine is None else {"machine": machine}),
        **({} if times is None else {"times": times}),
    }
    _require_values(paths, dims, branches, timeout=timeout, cores=cores, seed=seed)
    if cluster is not None:
        others = {"devices": devices, "mesh": mesh, "machine": machine, "split": split, "fuse": fuse, "times": times}
        refuse(**others, whole=whole or None, profile=profile or None, certificates=certificates or None)
        return plan_run(
            model,
            cluster=cluster,
            batch=batch,
            microbatch=microbatch,
            train=train,
            objective=objective,
            shard=shard,
            max_tensor=max_tensor,
            device=device,
            dims=dims,
            branches=branches,
            timeout=timeout,
            cores=cores,
            seed=seed,
            progress=progress,
        )
    require_cluster(
        batch=batch, microbatch=microbatch, train=train, objective=objective, shard=shard, max_tensor=max_tensor
    )
    path, device = Path(os.fsdecode(model)), os.fsdecode(device)
    machine = None if machine is None else os.fsdecode(machine)
    split = os.fsdecode(split) if isinstance(split, str | os.PathLike) else split
    times = None if times is None else Path(os.fsdecode(times))
    require_regular(path, device, machine, times, split if isinstance(split, str) else None)
    target = target_of(devices, device, mesh, machine)
    if profile and not target.measurable:
        expected = "expected equal devices or a machine: times measured here do not apply to CPUs or to a mesh"
        raise InputError("plan", "profile", expected)
    if times is not None and (profile or isinstance(target, MeshOfDevices)):
        raise InputError("plan", "times", "expected no profile and no mesh: it needs times of the parts of operators")
    if split is not None and (fuse or not isinstance(target, Pipeline)):
        expected = "expected a number of equal devices and no fuse: a split gives each operator a stage"
        raise InputError("plan", "split", expected)
    patterns = patterns_of(whole)
    if patterns and (split is not None or not isinstance(target, Pipeline)):
        expected = "expected a number of equal devices and no split: modules are kept whole by the search for stages"
        raise InputError("plan", "whole", expected)
    original = read_model(path, dims=dims or {}, tell=progress, branches=branches)
    content = read_bytes(path)
    if dims and not is_onnx(content):
        raise InputError(path, "", "expected no dims, as lowering a StableHLO program sets its sizes")
    if profile and not is_onnx(content):
        raise InputError(path, "", "expected an ONNX model to profile, as ONNX Runtime measures its operators")
    fuse = not is_onnx(content) if fuse is None else fuse
    joined, given = Joined.of(original, fused=fuse, passes=isinstance(target, Pipeline)), None
    if isinstance(target, Pipeline) and split is not None:
        ways = (joined, Joined.of(original, fused=False, passes=True))
        joined, given = stages_of(split, original, target.stages, progress, ways)
    digest = sha256(content)
    if profile:
        costs = _sums(_measured(path, original, dims, branches, progress), joined.links)
    elif times is not None:
        costs = measured_costs(times, original, joined, target.device)
    else:
        costs = roofline(joined.chains, target.device)
    progress(f"read {count(len(original.operators), 'operator')}; costs: {costs.origin}")
    joint, costs = joined.model, joined.sums(costs)
    task = target.task(joint, costs)
    contraction = contract(joint, patterns) if patterns else None
    known = None if given is None else _verified(task, given)
    if known:
        progress(f"the split as given: {known[1] * target.unit_us:,.6g} µs")
    search = partial(certify, steps=target.steps, tell=progress, cores=cores, seed=seed, certificates=certificates)
    search = partial(search, unit_us=target.unit_us)
    ends, bounds = time.monotonic() + timeout, list[tuple[Cost, str]]()
    if contraction:
        progress(f"keeping {count(len(contraction.modules), 'module')} whole")
        kept = target.task(contraction.model, _sums(costs, contraction.groups))
        together = search(kept.instance, timeout=WHOLE_SHARE * timeout)
        known = _verified(task, contraction.expand(kept.tidy(together.solution)))
        bounds = _bounds_of_whole(kept.instance, together)
        progress("searching without whole modules, for what they cost")
    found = search(task.instance, timeout=ends - time.monotonic(), known=known)
    bound, bound_from = max([*bounds, (found.lower_bound, found.bound_from)])
    grade = found.grade if bound == found.lower_bound else CLAIMED
    solution, cost = known or _verified(task, found.solution)
    return Plan(
        source=path,
        sha256=digest,
        model=joint,
        groups=[[original.operators[index].name for index in group] for group in joined.groups],
        target=target,
        costs=costs,
        instance=task.instance,
        solution=solution,
        cost=float(cost * target.unit_us),
        lower_bound=float(bound * target.unit_us),
        bound_from=bound_from,
        layout=task.divide(solution),
        options={
            "dims": dict(dims or {}),
            "branches": dict(branches or {}),
            "fuse": fuse,
            "whole": patterns,
            "timeout": timeout,
            "seed": seed,
        },
        better=float(found.cost * target.unit_us) if given is not None and found.cost < cost else None,
        passes=joined.passes or (isinstance(target, AcceleratorsAndCpus) and is_training_step(joint)),
        price=None if contraction is None else Price(contraction.modules, found.cost, found.lower_bound),
        grade=grade,
    )
