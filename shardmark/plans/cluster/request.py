"""From the arguments of `shardmark.plan` to a layout of a run on a cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import read_bytes, require_regular, sha256
from shardmark.instances.models.devices import Device
from shardmark.instances.models.devices import device as device_of
from shardmark.instances.models.model import Model
from shardmark.instances.models.reader import read_model
from shardmark.plans.cluster.layout import ClusterLayout, lay_out
from shardmark.plans.cluster.run import SERVING, SHARDS, STATE, Run
from shardmark.runs import whole

#: Devices of a cluster, at most.
MOST = 10**6
#: Samples, and devices of a replica, at most.
MOST_SAMPLES = 2**31 - 1
#: Arguments of `shardmark.plan` that only a cluster has, with their defaults.
DEFAULTS = {
    "batch": None,
    "microbatch": None,
    "train": "adam",
    "objective": None,
    "shard": "none",
    "max_tensor": 8,
}

#: Why a layout takes no argument of other plans; else it chooses itself what the argument says.
MEASURED = "where operators take the time of the roofline, as measurements have none of parts of them"
REASONS = {
    **dict.fromkeys(("profile", "times", "times_template"), MEASURED),
    "certificates": "whose bound is that of a tighter instance, which no file of the plan holds to check it against",
    "fuse": "which always fuses chains of cheap operators, but not with the product before them",
}
CHOSEN = "which chooses stages, replicas and the devices of each"


def plan_run(
    model: str | os.PathLike[str],
    *,
    cluster: str | Sequence[int],
    batch: int | None,
    microbatch: int | None,
    train: str,
    objective: str | None,
    shard: str,
    max_tensor: int,
    device: str | os.PathLike[str] | Device,
    dims: Mapping[str, int] | None,
    branches: Mapping[str, str] | None,
    timeout: float,
    cores: int,
    seed: int,
    progress: Callable[[str], None],
    check: Callable[[Path, Model], None] = lambda path, model: None,
    given: Mapping[str, Any] | None = None,
) -> ClusterLayout:
    """Lay a run out over a cluster of machines with equal devices; the arguments are those of `shardmark.plan`.

    ``check`` may refuse the model before the search. ``given`` is a solution to judge instead of the best one found.

    Raises InputError for bad input, and if no layout fits.
    """
    machines, devices = _sizes(cluster)
    if objective not in (None, *SERVING):
        raise InputError("plan", "objective", f"expected one of {', '.join(SERVING)}, found {objective!r}")
    if objective is not None and train != "none":
        raise InputError("plan", "objective", f"expected train none as well, which serves the model, found {train!r}")
    if objective == "latency" and batch is not None:
        raise InputError("plan", "batch", "expected none with the objective latency, which is of one sample")
    if batch is None and train != "none":
        raise InputError("plan", "batch", "expected the samples per step, such as --batch 512 (batch=512 in Python)")
    for name, number in (
        ("batch", 1 if batch is None else batch),
        ("microbatch", 1 if microbatch is None else microbatch),
        ("max_tensor", max_tensor),
    ):
        whole(name, number)
        if number > MOST_SAMPLES:
            raise InputError("plan", name, f"expected at most {MOST_SAMPLES:,}, found {number:,}")
    if train not in list(STATE):
        raise InputError("plan", "train", f"expected one of {', '.join(STATE)}, found {train!r}")
    shards = SHARDS if train != "none" else ("none", "weights")
    if shard not in shards:
        served = "" if train != "none" else " with train none, as there are no gradients and no optimizer"
        raise InputError("plan", "shard", f"expected one of {', '.join(shards)}{served}, found {shard!r}")
    chosen = device if isinstance(device, Device) else device_of(device)
    if machines > 1 and chosen.network_bandwidth is None:
        expected = "expected the bandwidth between machines, network_bandwidth in the TOML file of the device"
        raise InputError("plan", "device", f"{expected}; {chosen.name} has none")
    require_regular(model)
    path = Path(os.fsdecode(model))
    read = read_model(path, dims=dims or {}, tell=progress, branches=branches)
    check(path, read)
    samples = _samples(path, read, microbatch)
    run = Run(
        machines,
        devices,
        chosen,
        chosen.network_bandwidth or chosen.link_bandwidth,
        _served(samples, machines * devices, objective) if batch is None else int(batch),
        samples,
        train,
        shard,
        max_tensor,
        objective or SERVING[0],
    )
    found = lay_out(path, read, run, timeout=timeout, cores=cores, seed=seed, tell=progress, given=given)
    request = {
        "sha256": sha256(read_bytes(path)),
        "cluster": [machines, devices],
        "batch": batch,
        "microbatch": microbatch,
        "train": train,
        "objective": objective,
        "shard": shard,
        "max_tensor": max_tensor,
        "device": asdict(chosen),
        "dims": dict(dims or {}),
        "branches": dict(branches or {}),
        "timeout": timeout,
    }
    return replace(found, request=request)


def _served(samples: int, devices: int, objective: str | None) -> int:
    """Samples of a run that serves, for drawings and exports: a microbatch for each device, or one for latency."""
    return samples if objective == "latency" else samples * devices


def refuse(**others: object) -> None:
    """InputError for an argument of `shardmark.plan` that is not None, but is not about clusters."""
    for name in (name for name, value in others.items() if value is not None):
        raise InputError("plan", name, f"expected none with a cluster, {reason(name)}")


def reason(name: str) -> str:
    """Why a layout takes no such argument."""
    return REASONS.get(name, CHOSEN)


def require_cluster(**given: object) -> None:
    """InputError for one of the arguments that only a cluster has, which is not its default."""
    for name in (name for name, value in given.items() if value != DEFAULTS[name]):
        expected = "expected a cluster as well, such as --cluster 4x8 (cluster=(4, 8) in Python)"
        raise InputError("plan", name, expected)


def _sizes(cluster: str | Sequence[int]) -> tuple[int, int]:
    """Machines, and devices in each; InputError for anything else."""
    text = (
        "x".join(map(str, cluster)) if isinstance(cluster, Iterable) and not isinstance(cluster, str) else str(cluster)
    )
    match = re.fullmatch("([0-9]{1,7})x([0-9]{1,7})", text)
    if not match or not all(map(int, match.groups())):
        expected = "expected machines and the devices of each, such as 4x8"
        more = "; a cluster of unlike machines is a machine file, --machine" if "," in text or ":" in text else ""
        raise InputError("plan", "cluster", f"{expected}, found {text!r}{more}")
    machines, devices = int(match[1]), int(match[2])
    if machines * devices > MOST:
        raise InputError("plan", "cluster", f"expected at most {MOST:,} devices, found {machines * devices:,}")
    return machines, devices


def _samples(path: Path, model: Model, given: int | None) -> int:
    """Samples in the file's inputs: the first dimension of the first one that has any, or what is ``given``.

    InputError if no input has a dimension of what is given: the file's shapes decide what a microbatch costs.
    """
    inputs = [tensor for tensor in model.tensors if tensor.producer is None and not tensor.parameter and tensor.shape]
    samples = inputs[0].shape[0] if inputs else 1
    if not samples:
        raise InputError(path, "", "expected at least one sample in the first dimension of the first input, found 0")
    if given is None or not inputs:
        return samples if given is None else int(given)
    if not any(given in tensor.shape for tensor in inputs):
        expected = f"expected a dimension of the file's inputs, such as {samples}, the first one of {inputs[0].name}"
        more = "the file's shapes decide what a microbatch costs"
        raise InputError("plan", "microbatch", f"{expected}, found {given}; {more}")
    return int(given)
